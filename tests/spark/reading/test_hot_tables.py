"""Of a table with few newer records Spark's own scan reads the rows that they do not touch: the rows are the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import texts
from widetable.connector import hot_split
from widetable_spark.reading import served_reads

ROWS = 400


@pytest.fixture(autouse=True)
def all_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few values a table has, it may be read in two parts."""
    monkeypatch.setattr(served_reads, "_FEWEST_VALUES", 0)


def made(
    folder: Path,
    columns: Mapping[str, Any],
    key: list[str],
    rows: pa.Table,
    partition_by: list[str] | None = None,
    **options: str,
) -> wt.Table:
    given = {"bucket": "2", "write-only": "true", "widetable.fsync": "false", **options}
    schema = pa.schema(list(columns.items()))
    table = wt.Catalog(str(folder)).create_table(
        "db.t", schema, primary_key=key, partition_by=partition_by or [], options=given
    )
    table.write(rows.select([name for name in columns if name in rows.column_names]))
    table.compact(full=True)
    return table


def plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def is_hot(frame: Any) -> bool:
    return "LeftAnti" in plan(frame)


def check(spark: SparkSession, table: wt.Table, **how: Any) -> Any:
    """The rows of the table's own scan."""
    frame = widetable_spark.read(spark, table.path, **how)
    expected = table.scan(how.get("columns"), how.get("where")).to_arrow()
    assert frame.columns == expected.column_names
    assert texts(python_rows(frame.toArrow())) == texts(python_rows(expected))
    return frame


COLUMNS = {"day": pa.date32(), "k": pa.int64(), "v": pa.string(), "w": pa.int64()}


def months(folder: Path, **options: str) -> wt.Table:
    rows = pa.table(
        {
            "day": [dt.date(2026, 1 + i % 2, 1) for i in range(ROWS)],
            "k": list(range(ROWS)),
            "v": [f"v{i}" for i in range(ROWS)],
            "w": list(range(ROWS)),
        }
    )
    return made(folder, COLUMNS, ["day", "k"], rows, ["day"], **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        {"merge-engine": "aggregation", "fields.w.aggregate-function": "sum"},
        {"merge-engine": "first-row"},
    ],
    ids=lambda options: options.get("merge-engine", "deduplicate"),
)
def test_new_changed_and_deleted_rows_are_those_of_a_merge(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    table = months(tmp_path, **options)
    assert not is_hot(check(spark, table))
    day = dt.date(2026, 1, 1)
    table.write(
        [{"day": day, "k": 2, "w": 1000}, {"day": day, "k": 9000, "w": 3}, {"day": day, "k": 4}]
    )
    if "aggregation" not in options.values() and "first-row" not in options.values():
        table.delete_keys([{"day": day, "k": 6}])
    frame = check(spark, table)
    assert is_hot(frame) == (not options)
    assert frame.count() == table.scan().count()
    for columns in (["v"], ["w", "day"], ["k"], None):
        for where in (None, "w >= 400", "k between 1 and 6", "day = date '2026-01-01' and w < 9"):
            check(spark, table, columns=columns, where=where)
    assert check(spark, table, columns=["w", "v"]).columns == ["w", "v"]


def test_many_newer_rows_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = months(tmp_path)
    rows = [{"day": dt.date(2026, 1 + k % 2, 1), "k": k, "w": 0} for k in range(100)]
    table.write(rows)
    assert not is_hot(check(spark, table))


def test_more_keys_than_executors_should_get_are_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = months(tmp_path)
    table.write([{"day": dt.date(2026, 1, 1), "k": k, "w": 0} for k in range(0, 10, 2)])
    assert is_hot(check(spark, table))
    monkeypatch.setattr(served_reads, "_MOST_TOUCHED_KEYS", 0)
    assert not is_hot(check(spark, table))


KEYS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "text": (pa.string(), lambda i: "é\0" * (i % 3) + str(i)),
    "bytes": (pa.binary(), lambda i: bytes([i % 256, 0, i // 256])),
    "decimal": (pa.decimal128(20, 3), lambda i: Decimal(i) / 1000),
    "moment": (
        pa.timestamp("us", "UTC"),
        lambda i: dt.datetime(1900, 1, 1) + dt.timedelta(hours=i),
    ),
    "flag and number": (pa.int8(), lambda i: i % 100),
    "double": (pa.float64(), lambda i: -0.0 if i == 0 else float(i)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Spark's joins take 0.0 for -0.0, and NaN for NaN: such a table is merged."""
    key_type, value = KEYS[kind]
    columns = {"a.b": pa.int32(), "Key `x`": key_type, "v": pa.int64()}
    keys = [{"a.b": i, "Key `x`": value(i)} for i in range(ROWS)]
    rows = pa.Table.from_pylist(
        [{**key, "v": 1} for key in keys], schema=pa.schema(list(columns.items()))
    )
    table = made(tmp_path, columns, ["Key `x`", "a.b"], rows)
    newer = [{**keys[3], "v": 7}, {**keys[0], "v": 8}]
    table.write(pa.Table.from_pylist(newer, schema=rows.schema))
    frame = check(spark, table)
    assert is_hot(frame) == (kind != "double")
    check(spark, table, columns=["v"])


def test_few_values_are_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = months(tmp_path)
    table.write([{"day": dt.date(2026, 1, 1), "k": 0, "w": 0}])
    halves = [hot_split(read) for read in table.scan().split_reads()]
    rows = sum(each.untouched.split.rows for each in halves if each is not None)
    monkeypatch.setattr(served_reads, "_FEWEST_VALUES", rows * 3)
    assert is_hot(check(spark, table))
    assert not is_hot(check(spark, table, columns=["w", "v"]))


def test_files_of_an_older_schema_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = months(tmp_path)
    wt.Catalog(str(tmp_path)).alter_table("db.t", rename_columns={"v": "renamed"})
    table = wt.Table.open(table.path)
    table.write([{"day": dt.date(2026, 1, 1), "k": 0, "w": 5}])
    assert not is_hot(check(spark, table))


def test_two_reads_do_not_mix(spark: SparkSession, tmp_path: Path) -> None:
    table = months(tmp_path)
    table.write([{"day": dt.date(2026, 1, 1), "k": 0, "w": 5}])
    frame = widetable_spark.read(spark, table.path)
    table.write([{"day": dt.date(2026, 1, 1), "k": 0, "w": 6}])
    newer = widetable_spark.read(spark, table.path)
    both = frame.join(newer, ["day", "k"]).where(frame["w"] != newer["w"])
    assert [tuple(row) for row in both.select("k", frame["w"], newer["w"]).collect()] == [(0, 5, 6)]


def test_the_condition_reaches_sparks_own_scan(spark: SparkSession, tmp_path: Path) -> None:
    table = months(tmp_path)
    table.write([{"day": dt.date(2026, 1, 1), "k": 0, "w": 5}])
    text = plan(widetable_spark.read(spark, table.path, columns=["v"], where="w = 7"))
    pushed = "PushedFilters: [IsNotNull(w), EqualTo(w,7)]"
    assert pushed in text, text
