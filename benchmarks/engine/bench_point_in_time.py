"""Features as they were known at a time, against DuckDB and Polars over a Parquet file of the same versions.

Ours: `Table.point_in_time` of a table whose versions are in a history on disk; its snapshots have expired. Theirs: an
ASOF join of DuckDB, and `join_asof(by=...)` of Polars, which sorts both sides, from the versions that the history has,
in its order, to Arrow. The values are equal, whatever the order of the rows, before time counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch, timed

_SEED = 1
_TARGETS = {"DuckDB": 2, "Polars": 3}


@dataclass(frozen=True)
class _PastShape:
    """keys with a version of each in every commit. questions: entity rows."""

    keys: int
    commits: int
    features: int
    questions: int
    rounds: int


SHAPES = {
    Size.FULL: _PastShape(500_000, 20, 20, 1_000_000, 3),
    Size.SHORT: _PastShape(50_000, 10, 20, 100_000, 1),
    Size.TINY: _PastShape(50, 3, 2, 100, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("point_in_time") as work:
        sides = _Past(work, shape)
        rivals = {"DuckDB": sides.duckdb, "Polars": sides.polars}
        answers = _sorted(sides.ours())
        for rival in rivals.values():
            assert _sorted(rival()).equals(answers)
        return [_row(name, sides.ours, rival, shape, size) for name, rival in rivals.items()]


def _row(
    name: str,
    ours: Callable[[], pa.Table],
    rival: Callable[[], pa.Table],
    shape: _PastShape,
    size: Size,
) -> Row:
    mine, theirs, ratio, _ = paired(
        lambda: timed(ours).wall, lambda: timed(rival).wall, shape.rounds
    )
    target = _TARGETS[name]
    ok = ratio >= target if size is Size.FULL else None
    versions = shape.keys * shape.commits
    what = f"features of {shape.questions:,} rows, {versions:,} versions; {name}"
    return Row(what, f"{mine:.2f} s", f"{theirs:.2f} s", ratio, f">= {target}", ok)


def _sorted(answers: pa.Table) -> pa.Table:
    """Return the number and the features of the rows, by number."""
    features = [name for name in answers.column_names if name.startswith("f")]
    chosen = answers.select(["n", *sorted(features)])
    return chosen.take(pc.sort_indices(chosen["n"])).combine_chunks().replace_schema_metadata()


class _Past:
    """The same versions and questions on all sides."""

    def __init__(self, work: Path, shape: _PastShape) -> None:
        rng = np.random.default_rng(_SEED)
        catalog = wt.Catalog(str(work / "wh"))
        self._features = [f"f{number}" for number in range(shape.features)]
        fields = [("id", pa.int64()), *((name, pa.float64()) for name in self._features)]
        options = {
            "bucket": "8",
            "write-only": "true",
            "history.table": "b.history",
            "widetable.fsync": "false",
        }
        self._table = catalog.create_table(
            "b.users", pa.schema(fields), primary_key=["id"], options=options
        )
        times = [_written(self._table, shape, rng) for _ in range(shape.commits)]
        # All of the past is in the history before the snapshots expire.
        self._table.maintain(once=True)
        self._table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
        history = catalog.table("b.history")
        history.compact(full=True)
        self._versions, self._questions = work / "versions.parquet", work / "rows.parquet"
        kept = history.scan(["id", "_from", *self._features]).to_arrow()
        assert kept.num_rows == shape.keys * shape.commits
        pq.write_table(kept, self._versions)
        # Some are before the first commit; none is of the last one, which the table itself has.
        at = rng.integers(times[0] - 2, times[-1], shape.questions) * 1000
        self._rows = pa.table(
            {
                "n": np.arange(shape.questions),
                "id": rng.integers(0, shape.keys + shape.keys // 50, shape.questions),
                "moment": pa.array(at, pa.timestamp("us")),
            }
        )
        pq.write_table(self._rows, self._questions)

    def ours(self) -> pa.Table:
        return self._table.point_in_time(self._rows, "moment")

    def duckdb(self) -> pa.Table:
        connection = duckdb.connect()
        connection.execute("set threads = 2; set enable_progress_bar = false")
        connection.execute("set preserve_insertion_order = false")
        answers: pa.Table = connection.sql(f"""
            select q.*, {", ".join(f"v.{name}" for name in self._features)}
            from '{self._questions}' q asof left join '{self._versions}' v
                on q.id = v.id and q.moment >= v._from""").to_arrow_table()
        return answers

    def polars(self) -> pa.Table:
        rows = pl.read_parquet(self._questions).sort("moment")
        versions = pl.read_parquet(self._versions)
        versions = versions.with_columns(pl.col("_from").cast(pl.Datetime("us"))).sort("_from")
        joined = rows.join_asof(
            versions, left_on="moment", right_on="_from", by="id", check_sortedness=False
        )
        return joined.to_arrow()


def _written(table: wt.Table, shape: _PastShape, rng: np.random.Generator) -> int:
    """Commit a version of each key; return its time. No two commits have the time of one millisecond."""
    columns = {f"f{number}": rng.random(shape.keys) for number in range(shape.features)}
    table.write(pa.table({"id": np.arange(shape.keys), **columns}))
    time.sleep(0.002)
    return max(snapshot.time_millis for snapshot in table.snapshots())
