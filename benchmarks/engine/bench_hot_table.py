"""Queries over a table with 1 and 5 % newer rows at level 0, as streams leave it, against the same table compacted.

Spark reads by `widetable_spark.read`, Python by `scan()`, DuckDB by `to_duckdb`. The rows are 20 columns in four
buckets. Newer records replace rows (`deduplicate`) or four of their values (`partial-update`). Three queries: sums of
three columns, a filter that keeps one row of a thousand, a group-by of a text. Results are equal before time counts:
the compacted table is compacted from a copy of the hot one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
import pyarrow.compute as pc
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, Size, linked_copy, paired, scratch, timed
from benchmarks.spark_session import session

_SEED: Final = 1
_VALUES: Final = 19
# Share of newer rows in percent, and the highest ratio of the goal.
_GOALS: Final = {1: 1.5, 5: 2.0}


@dataclass(frozen=True)
class _Query:
    """text: in SQL, over the table t. columns, where: what of it a scan can do."""

    name: str
    text: str
    columns: tuple[str, ...]
    where: str | None = None


QUERIES: Final = (
    _Query("sums", "select sum(c0), sum(c2), sum(c4) from t", ("c0", "c2", "c4")),
    _Query(
        "filter",
        "select count(c9), sum(c2), sum(c4) from t where c0 < 1000",
        ("c9", "c2", "c4"),
        "c0 < 1000",
    ),
    _Query("group-by", "select c9, count(*), sum(c2) from t group by c9 order by c9", ("c9", "c2")),
)
_Answer: TypeAlias = Callable[[wt.Table, _Query], list[Any]]


@dataclass(frozen=True)
class _HotShape:
    rows: int
    rounds: int


SHAPES: Final = {
    Size.FULL: _HotShape(2_000_000, 5),
    Size.SHORT: _HotShape(400_000, 3),
    Size.TINY: _HotShape(4_000, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    spark = session()
    rows = []
    with scratch("hot_table") as work:
        for percent, goal in _GOALS.items():
            whole = _tables(work / f"whole-{percent}", shape.rows, percent, "deduplicate")
            hot, cold = _tables(work / str(percent), shape.rows, percent, "partial-update")
            sides: dict[str, _Answer] = {
                "Spark": partial(_by_spark, spark),
                "scan": _by_scan,
                "DuckDB": _by_duckdb,
            }
            for query in QUERIES:
                what = f"{query.name} by Spark, {percent} % newer rows that replace others, against none"
                rows.append(_compared(what, sides["Spark"], *whole, query, goal, shape, size))
                for by, answer in sides.items():
                    what = f"{query.name} by {by}, {percent} % newer values, against none"
                    rows.append(_compared(what, answer, hot, cold, query, goal, shape, size))
    return rows


def _compared(
    what: str,
    answer: _Answer,
    hot: wt.Table,
    cold: wt.Table,
    query: _Query,
    goal: float,
    shape: _HotShape,
    size: Size,
) -> Row:
    assert _close(answer(hot, query), answer(cold, query)), what
    hot_s, cold_s, ratio, pairs = paired(
        lambda: timed(lambda: answer(hot, query)).wall,
        lambda: timed(lambda: answer(cold, query)).wall,
        shape.rounds,
    )
    ok = 1 / ratio <= goal if size is Size.FULL else None
    details = {"pairs": pairs}
    return Row(what, f"{hot_s:.2f} s", f"{cold_s:.2f} s", 1 / ratio, f"<= {goal}", ok, details)


def _tables(folder: Path, rows: int, percent: int, engine: str) -> tuple[wt.Table, wt.Table]:
    """The table with newer rows, and a copy of it that is compacted."""
    schema = wide_schema(_VALUES)
    options = {"bucket": "4", "write-only": "true", "merge-engine": engine}
    table = wt.Catalog(str(folder)).create_table(
        "bench.hot", schema, primary_key=["k"], options=options
    )
    table.write(wide_rows(schema, np.arange(rows), seed=_SEED))
    table.compact(full=True)
    rng = np.random.default_rng(_SEED)
    keys = np.sort(rng.choice(rows, rows * percent // 100, replace=False))
    names = None if engine == "deduplicate" else ["k", "c0", "c1", "c2", "c9"]
    table.write(wide_rows(schema, keys, seed=_SEED + 1, names=names))
    path = Path(table.path)
    compacted = wt.Table.open(str(linked_copy(path, path.with_name("cold"))))
    compacted.compact(full=True)
    return table, compacted


def _by_spark(spark: SparkSession, table: wt.Table, query: _Query) -> list[Any]:
    widetable_spark.read(spark, table.path).createOrReplaceTempView("t")
    return [tuple(row) for row in spark.sql(query.text).collect()]


def _by_scan(table: wt.Table, query: _Query) -> list[Any]:
    rows = table.scan(query.columns, query.where).to_arrow()
    if query.where is None and query.name != "sums":
        sums = rows.group_by("c9").aggregate([([], "count_all"), ("c2", "sum")]).sort_by("c9")
        return [tuple(row.values()) for row in sums.to_pylist()]
    first = [len(rows)] if query.where else [pc.sum(rows["c0"]).as_py()]
    return [(*first, pc.sum(rows["c2"]).as_py(), pc.sum(rows["c4"]).as_py())]


def _by_duckdb(table: wt.Table, query: _Query) -> list[Any]:
    columns = dict.fromkeys((*query.columns, *(["c0"] if query.where else [])))
    relation = table.scan(list(columns)).to_duckdb(duckdb.connect())
    return list(relation.query("t", query.text).fetchall())


def _close(one: list[Any], other: list[Any]) -> bool:
    """Whether rows are equal; sums of doubles come in another order."""
    return len(one) == len(other) and all(
        x == y or (isinstance(x, float) and math.isclose(x, y, rel_tol=1e-9))
        for row, peer in zip(one, other, strict=True)
        for x, y in zip(row, peer, strict=True)
    )
