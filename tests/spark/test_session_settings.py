"""Settings of a session do not reach the rows of a table (docs/spark-options.md, "Settings of a session")."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from widetable.read import hot_split
from widetable_spark.reading import served_reads

UTC = dt.timezone.utc
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("wall", pa.timestamp("us")),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("number", pa.decimal128(20, 4)),
        ("double", pa.float64()),
        ("list", pa.list_(pa.timestamp("us"))),
        ("row", pa.struct([("day", pa.date32()), ("text", pa.string())])),
    ]
)
# Days of both calendars, the last and the first of each, and the zones' odd hours.
ROWS: list[dict[str, Any]] = [
    {
        "k": n,
        "day": day,
        "at": dt.datetime(day.year, day.month, day.day, 2, 30, tzinfo=UTC),
        "wall": dt.datetime(day.year, day.month, day.day, 2, 30),
        "text": "x ",
        "bytes": b"\xff\x00",
        "number": n,
        "double": -0.0,
        "list": [dt.datetime(day.year, day.month, day.day, 2, 30)],
        "row": {"day": day, "text": ""},
    }
    for n, day in enumerate(
        [
            dt.date(1, 1, 1),
            dt.date(1000, 2, 28),
            dt.date(1582, 10, 4),
            dt.date(1582, 10, 15),
            dt.date(1899, 12, 31),
            dt.date(2024, 3, 10),
        ]
    )
]
# Each value that changes what Spark makes of files or of batches from Python.
SETTINGS = [
    ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
    ("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION"),
    ("spark.sql.parquet.int96RebaseModeInRead", "LEGACY"),
    ("spark.sql.parquet.int96RebaseModeInRead", "EXCEPTION"),
    ("spark.sql.parquet.int96TimestampConversion", "true"),
    ("spark.sql.parquet.inferTimestampNTZ.enabled", "false"),
    ("spark.sql.parquet.binaryAsString", "true"),
    ("spark.sql.parquet.mergeSchema", "true"),
    ("spark.sql.parquet.fieldId.read.enabled", "true"),
    ("spark.sql.parquet.enableVectorizedReader", "false"),
    ("spark.sql.parquet.enableNestedColumnVectorizedReader", "false"),
    ("spark.sql.parquet.recordLevelFilter.enabled", "true"),
    ("spark.sql.parquet.filterPushdown", "false"),
    ("spark.sql.sources.useV1SourceList", ""),
    ("spark.sql.sources.partitionColumnTypeInference.enabled", "false"),
    ("spark.sql.files.ignoreMissingFiles", "true"),
    ("spark.sql.files.ignoreCorruptFiles", "true"),
    ("spark.sql.files.maxPartitionBytes", "1024"),
    ("spark.sql.ansi.enabled", "false"),
    ("spark.sql.caseSensitive", "true"),
    ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
    ("spark.sql.session.timeZone", "America/New_York"),
    ("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "true"),
    ("spark.sql.legacy.charVarcharAsString", "true"),
    ("spark.sql.legacy.parquet.nanosAsLong", "true"),
    ("spark.sql.legacy.timeParserPolicy", "LEGACY"),
    ("spark.sql.readSideCharPadding", "false"),
    ("spark.sql.datetime.java8API.enabled", "true"),
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "1"),
    ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ("spark.sql.execution.arrow.pyspark.enabled", "true"),
    ("spark.sql.execution.arrow.compression.codec", "zstd"),
    ("spark.sql.optimizer.nestedSchemaPruning.enabled", "false"),
    ("spark.sql.adaptive.enabled", "false"),
]


def new_table(warehouse: Path) -> wt.Table:
    table = wt.Catalog(str(warehouse)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true"}
    )
    for _ in range(2):
        table.write(pa.Table.from_pylist(ROWS, SCHEMA))
    return table


# As texts and numbers, which no zone of this process changes.
SHOWN = [
    "k",
    "text",
    "hex(bytes)",
    "CAST(number AS STRING)",
    "CAST(double AS STRING)",
    "unix_micros(at)",
    "CAST(wall AS STRING)",
    "transform(list, x -> CAST(x AS STRING))",
    "unix_date(day)",
    "struct(unix_date(row.day), row.text)",
]
EPOCH = dt.datetime(1970, 1, 1)


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    """What `SHOWN` gives of a row."""
    since, wall = row["wall"] - EPOCH, str(row["wall"])
    micros = since // dt.timedelta(microseconds=1)
    number = f"{row['k']}.0000"
    return (
        row["k"],
        "x ",
        "FF00",
        number,
        "-0.0",
        micros,
        wall,
        [wall],
        since.days,
        (since.days, ""),
    )


def found_in(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.selectExpr(*SHOWN).collect())


@pytest.fixture(scope="module")
def paths(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The same rows: in files that must be merged, in one that Spark reads by itself, and in one that it reads without
    the keys of a newer one.
    """
    names = ("merged", "compacted", "hot")
    tables = {name: new_table(tmp_path_factory.mktemp(name)) for name in names}
    for name in ("compacted", "hot"):
        tables[name].compact(full=True)
    tables["hot"].write(pa.Table.from_pylist(ROWS[2:3], SCHEMA))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot_split, "_MOST_NEWER_ROWS", 1)
        patch.setattr(served_reads, "_FEWEST_VALUES", 0)
        hot = widetable_spark.read(spark, tables["hot"].path)
        assert "LeftAnti" in hot._jdf.queryExecution().toString()
        yield {name: table.path for name, table in tables.items()}


@pytest.fixture
def setting(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    key, value = request.param
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    yield key
    spark.conf.unset(key)
    if before is not None:
        spark.conf.set(key, before)


@pytest.mark.parametrize(
    "setting", SETTINGS, indirect=True, ids=["=".join(each) for each in SETTINGS]
)
def test_a_setting_changes_no_value(
    spark: SparkSession, paths: dict[str, str], setting: str
) -> None:
    expected = list(map(shown, ROWS))
    for path in paths.values():
        assert found_in(widetable_spark.read(spark, path)) == expected
        assert found_in(spark.read.format("widetable").load(path)) == expected
        kept = widetable_spark.read(spark, path, where="double = 0.0 AND text = 'x ' AND k < 3")
        assert found_in(kept) == expected[:3]


@pytest.mark.parametrize("key", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_a_missing_or_damaged_file_is_an_error(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    table = new_table(tmp_path)
    table.compact(full=True)
    frame = widetable_spark.read(spark, table.path)
    (file,) = (path for path in Path(table.path).glob("bucket-*/*") if path.name in _live(table))
    if key == "ignoreMissingFiles":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1000])
    spark.conf.set(f"spark.sql.files.{key}", "true")
    try:
        with pytest.raises((PySparkException, Py4JError)):
            frame.collect()
        with pytest.raises((PySparkException, Py4JError, wt.WidetableError)):
            widetable_spark.read(spark, table.path).collect()
    finally:
        spark.conf.unset(f"spark.sql.files.{key}")


def _live(table: wt.Table) -> set[str]:
    return {file.file_name for split in table.scan().splits() for file in split.files}
