"""Columns that no file holds are null literals of Spark's plan; rows, types and conditions are those of a scan."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from widetable_spark.frames.spark_types import spark_schema

DECLARED = 120
_STRUCT = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.list_(pa.string()))])
# In turn for the columns c0, c1, ..
_TYPES = [
    pa.int64(),
    pa.decimal128(12, 3),
    pa.timestamp("us", tz="UTC"),
    pa.list_(_STRUCT),
    pa.string(),
    _STRUCT,
    pa.map_(pa.string(), pa.float64()),
    pa.date32(),
]


def _wide(
    root: Path,
    options: dict[str, str] | None = None,
    types: list[pa.DataType] = _TYPES,
    partition_by: tuple[str, ...] = (),
) -> wt.Table:
    """A key `k`, a NOT NULL column `day` and nullable columns c0 .. c119, of which the first commits hold few."""
    fields = [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("day", pa.string(), nullable=False),
    ]
    fields += [pa.field(f"c{i}", types[i % len(types)]) for i in range(DECLARED)]
    return wt.Catalog(str(root)).create_table(
        "db.wide",
        pa.schema(fields),
        primary_key=[*partition_by, "k"],
        partition_by=partition_by,
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "write-only": "true",
            **(options or {}),
        },
    )


@pytest.fixture
def wide(tmp_path: Path) -> wt.Table:
    """Two overlapping commits, which together hold c0 to c7: one column of each type."""
    table = _wide(tmp_path)
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)
    rows: list[dict[str, Any]] = [
        {"k": 1, "day": "a", "c0": 5, "c1": Decimal("1.500"), "c2": noon},
        {"k": 2, "day": "b", "c0": None, "c1": None, "c2": None},
    ]
    table.write(rows)
    inner = {"x": 3, "y": ["p", None]}
    table.write(
        [{"k": 2, "day": "b", "c3": [inner, None], "c4": "t", "c5": inner, "c6": {"m": 0.5}}]
    )
    table.write([{"k": 3, "day": "a", "c5": None, "c7": dt.date(2024, 2, 1)}])
    return table


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=str)


def _scanned(spark: SparkSession, table: wt.Table, **scan: Any) -> list[dict[str, Any]]:
    """As Spark shows the rows of the table's own scan."""
    found = table.scan(**scan)
    return _rows(spark.createDataFrame(found.to_arrow(), spark_schema(found.arrow_schema)))


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def _merged_columns(frame: DataFrame) -> int:
    """How many columns the tasks send to Spark."""
    line = next(line for line in _plan(frame).splitlines() if "MapInArrow" in line)
    return line.partition("[")[2].partition("]")[0].count("#")


def test_rows_types_and_nullability_are_those_of_a_scan(
    spark: SparkSession, wide: wt.Table
) -> None:
    frame = widetable_spark.read(spark, wide.path)
    assert frame.schema == spark_schema(wide.arrow_schema)
    assert _rows(frame) == _scanned(spark, wide)


def test_tasks_send_only_columns_that_a_file_holds(spark: SparkSession, wide: wt.Table) -> None:
    frame = widetable_spark.read(spark, wide.path)
    assert _merged_columns(frame) == 2 + 8
    assert "null AS c119" in _plan(frame.select("c119"))


def test_nested_values_are_not_taken_apart(spark: SparkSession, wide: wt.Table) -> None:
    plan = _plan(widetable_spark.read(spark, wide.path))
    assert "transform(" not in plan
    assert "named_struct" not in plan


@pytest.mark.parametrize(
    "where",
    [
        "c100 IS NULL",
        "c100 IS NOT NULL",
        "c100 = 't'",
        "NOT (c100 = 't')",
        "c100 = 't' OR c0 = 5",
        "c100 IS NULL AND c4 = 't'",
        "coalesce(c0, c8, 1) = 1",
    ],
)
def test_a_condition_on_a_column_that_no_file_holds_sees_nulls(
    spark: SparkSession, wide: wt.Table, where: str
) -> None:
    expected = _rows(
        spark.createDataFrame(_scanned(spark, wide), spark_schema(wide.arrow_schema)).where(where)
    )
    assert _rows(widetable_spark.read(spark, wide.path).where(where)) == expected
    if "coalesce" not in where:
        assert _rows(widetable_spark.read(spark, wide.path, where=where)) == expected


def test_rows_are_counted_without_columns_and_by_columns_that_no_file_holds(
    spark: SparkSession, wide: wt.Table
) -> None:
    frame = widetable_spark.read(spark, wide.path)
    assert frame.count() == 3
    assert _rows(frame.selectExpr("count(*) n", "count(c100) c", "count(c0) d")) == [
        {"n": 3, "c": 0, "d": 1}
    ]
    unheld = [f"c{i}" for i in range(8, DECLARED)]
    assert _rows(widetable_spark.read(spark, wide.path, columns=unheld)) == _scanned(
        spark, wide, columns=unheld
    )


def test_an_order_of_columns_and_names_that_mean_something_in_sql(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ["k", "a.b", "x`y", *[f"c{i}" for i in range(100)], "a", "*", "sum(z)"]
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([pa.field(name, pa.int64(), nullable=name != "k") for name in names]),
        primary_key=["k"],
        options={"bucket": "1", "merge-engine": "partial-update", "write-only": "true"},
    )
    table.write([{"k": 1, "a.b": 2}])
    table.write([{"k": 1, "*": 3}])
    columns = names[::-1]
    frame = widetable_spark.read(spark, table.path, columns=columns)
    assert frame.columns == columns
    assert _rows(frame) == _scanned(spark, table, columns=columns)


def test_columns_whose_names_differ_in_case_alone_are_kept_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ["k", "v", "V", *[f"c{i}" for i in range(100)]]
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([pa.field(name, pa.int64(), nullable=name != "k") for name in names]),
        primary_key=["k"],
        options={"bucket": "1", "merge-engine": "partial-update", "write-only": "true"},
    )
    table.write([{"k": 1, "v": 2}])
    table.write([{"k": 1, "c7": 3}])
    frame = widetable_spark.read(spark, table.path)
    assert frame.columns == names
    assert [tuple(row) for row in frame.collect()] == [
        tuple(table.scan().to_arrow().to_pylist()[0].values())
    ]


def test_a_snapshot_of_the_past_has_the_columns_that_were_held_then(
    spark: SparkSession, wide: wt.Table
) -> None:
    frame = widetable_spark.read(spark, wide.path, as_of=2)
    assert _rows(frame) == _scanned(spark, wide, snapshot_id=2)
    assert _merged_columns(frame) == 2 + 7


def test_an_empty_table_has_all_columns_and_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = _wide(tmp_path)
    frame = widetable_spark.read(spark, table.path)
    assert frame.schema == spark_schema(table.arrow_schema)
    assert frame.collect() == []


def test_partitions_that_spark_scans_and_partitions_that_are_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _wide(tmp_path, partition_by=("day",))
    table.write([{"k": 1, "day": "a", "c0": 1, "c4": "x"}])
    table.compact(full=True)
    table.write([{"k": 1, "day": "b", "c8": 1}])
    table.write([{"k": 1, "day": "b", "c8": 2}])
    frame = widetable_spark.read(spark, table.path)
    assert "MapInArrow" in _plan(frame)
    assert "parquet" in _plan(frame)
    assert _rows(frame) == _scanned(spark, table)
    assert _rows(frame.where("day = 'b'").select("c8", "c0")) == [{"c8": 2, "c0": None}]


def test_deleted_rows_stay_away(spark: SparkSession, tmp_path: Path) -> None:
    options = {
        "merge-engine": "deduplicate",
        "deletion-vectors.enabled": "true",
        "write-only": "false",
    }
    table = _wide(tmp_path, options, [pa.int64()])
    table.write([{"k": k, "day": "a", "c0": k} for k in range(6)])
    table.compact(full=True)
    table.delete("k < 3")
    table.write([{"k": 4, "day": "a", "c9": 1}])
    assert _rows(widetable_spark.read(spark, table.path)) == _scanned(spark, table)


Change = Callable[[wt.Catalog], wt.Table]


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.alter_table("db.wide", rename_columns={"c0": "d0"}),
        lambda c: c.alter_table("db.wide", rename_columns={"c100": "d100"}),
        lambda c: c.alter_table("db.wide", change_types={"c4": pa.string(), "c8": pa.int64()}),
        lambda c: [
            c.alter_table("db.wide", drop_columns=["c0"]),
            c.alter_table("db.wide", add_columns={"c0": pa.int64()}),
        ][-1],
        lambda c: [
            c.alter_table("db.wide", rename_columns={"c0": "old"}),
            c.alter_table("db.wide", rename_columns={"c8": "c0"}),
        ][-1],
        lambda c: c.alter_table("db.wide", add_columns={"added": pa.float64()}),
    ],
    ids=["renamed", "unheld-renamed", "retyped", "dropped-and-added", "names-passed-on", "added"],
)
def test_columns_go_by_id_after_a_change_of_the_schema(
    spark: SparkSession, wide: wt.Table, tmp_path: Path, change: Change
) -> None:
    table = change(wt.Catalog(str(tmp_path)))
    frame = widetable_spark.read(spark, table.path)
    assert frame.schema == spark_schema(table.arrow_schema)
    assert _rows(frame) == _scanned(spark, table)
    name = table.arrow_schema.names[2]
    table.write([{"k": 1, "day": "a", name: 77}])
    assert _rows(widetable_spark.read(spark, table.path)) == _scanned(spark, table)


def test_aggregates_of_columns_that_no_file_holds_are_those_of_a_scan(
    spark: SparkSession, tmp_path: Path
) -> None:
    functions = [
        "sum",
        "product",
        "max",
        "first_non_null_value",
        "last_non_null_value",
        "bool_or",
        "listagg",
        "collect",
    ]
    kinds = {"bool_or": pa.bool_(), "listagg": pa.string(), "collect": pa.list_(pa.int64())}
    options = {f"fields.c{i}.aggregate-function": f for i, f in enumerate(functions)}
    options["merge-engine"] = "aggregation"
    types = [kinds.get(function, pa.int64()) for function in functions]
    table = _wide(tmp_path, options, types)
    table.write([{"k": 1, "day": "a", "c0": 5}])
    table.write([{"k": 1, "day": "a", "c8": 6}])
    assert _rows(widetable_spark.read(spark, table.path)) == _scanned(spark, table)
