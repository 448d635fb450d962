"""Which columns a write may touch: Table, BarrierWriter, StreamSink and EtlSink refuse the same, with equal errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import widetable as wt
from widetable.errors import WidetableError
from widetable_spark.frames.source_options import parse_options
from widetable_spark.frames.spark_types import spark_schema
from widetable_spark.jobs.etl_sink import SinkTable, _written
from widetable_spark.writing.stream_sink import StreamSink

FACT, DIM = "db.fact", "db.dim"
PAIR = pa.struct([("x", pa.int32()), ("y", pa.int32())])
COLUMNS = {
    "id": pa.int64(),
    "cust": pa.int64(),
    "street": pa.string(),
    "town": pa.string(),
    "at": pa.int64(),
    "pair": PAIR,
    "other": pa.int64(),
}
OWNED = ("cust", "street", "town", "at", "pair")
# What is written: columns, and types of those that differ -> the class, code and subject of the error.
TYPES = COLUMNS | {"city": pa.string(), "_widen_cust": pa.int64()}
CASES: dict[str, tuple[Sequence[tuple[str, pa.DataType]], tuple[type, str, str] | None]] = {
    name: ([(each, TYPES.get(each, pa.int64())) for each in names.split()], expected)
    for name, names, expected in [
        ("accepted", "id cust street town at", None),
        ("unknown", "id nope", (wt.InvalidError, "WT-E100", "column 'nope'")),
        ("letters", "id Cust", (wt.InvalidError, "WT-E100", "column 'Cust'")),
        ("field of a column", "id pair.x", (wt.InvalidError, "WT-E100", "column 'pair.x'")),
        ("twice", "id cust cust", (wt.InvalidError, "WT-E100", "column 'cust'")),
        ("derived", "id city", (wt.InvalidError, "WT-E100", "column 'city'")),
        ("its sequence", "id _widen_cust", (wt.InvalidError, "WT-E100", "column '_widen_cust'")),
        ("without key", "cust", (wt.InvalidError, "WT-E100", "column 'id'")),
        (
            "part of a group",
            "id street at",
            (wt.InvalidError, "WT-E100", "columns to write (id, street, at)"),
        ),
        (
            "without the sequence",
            "id street town",
            (wt.InvalidError, "WT-E100", "columns to write (id, street, town)"),
        ),
    ]
} | {
    "nested": (
        [("id", pa.int64()), ("pair", pa.struct([("x", pa.int32())]))],
        (wt.InvalidError, "WT-E100", "column 'pair'"),
    )
}
ANOTHERS = [("id", pa.int64()), ("other", pa.int64())]


class Writes:
    """The four ways into two tables of one schema, one of them under barriers, whose writers own `OWNED`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        plain, self._catalog = (wt.Catalog(folder / name) for name in ("plain", "barriers"))
        if not (folder / "plain").exists():
            create_fact(plain, {})
            create_fact(self._catalog, {"widetable.barrier-interval": "10 ms"})
        self.table, self._with_barriers = plain.table(FACT), self._catalog.table(FACT)

    def set_default(self) -> None:
        """Give a column a default value, as Paimon's own clients do."""
        for table in (self.table, self._with_barriers):
            for file in Path(table.path, "schema").iterdir():
                schema = json.loads(file.read_text())
                schema["fields"][1]["defaultValue"] = "7"
                file.write_text(json.dumps(schema))

    def by_table(self, schema: pa.Schema) -> None:
        self.table.write(row_of(schema))

    def by_barrier_writer(self, schema: pa.Schema) -> None:
        self._catalog.writer(FACT, "w", OWNED).write(row_of(schema), barrier=10)

    def by_stream_sink(self, schema: pa.Schema) -> None:
        for table, more in ((self.table, {}), (self._with_barriers, {"barrier.writer": "s"})):
            options = parse_options({"path": table.path, **more})
            StreamSink(options, spark_schema(schema), overwrite=False)

    def by_etl_sink(self, schema: pa.Schema) -> None:
        rows = self._spark.createDataFrame([], spark_schema(schema))
        table = self._catalog.table(FACT)
        _written(SinkTable(table, None, OWNED), rows, {})

    @property
    def all(self) -> list[Callable[[pa.Schema], None]]:
        return [self.by_table, self.by_barrier_writer, self.by_stream_sink, self.by_etl_sink]


def create_fact(catalog: wt.Catalog, options: dict[str, str]) -> None:
    own = {"bucket": "1", "widetable.fsync": "false", "changelog-producer": "lookup", **options}
    dim = {"id": pa.int64(), "city": pa.string()}
    catalog.create_table(DIM, dim, primary_key=["id"], options=own)
    groups = {"merge-engine": "partial-update", "fields.at.sequence-group": "street,town"}
    own |= {**groups, "widen.cust": f"{DIM}(city)"}
    catalog.create_table(FACT, COLUMNS, primary_key=["id"], options=own)


def row_of(schema: pa.Schema) -> pa.Table:
    """One row, whose values are the key 1 and nulls: types of values are checked with the first row."""
    arrays = [pa.array([1]) if field.name == "id" else pa.nulls(1, field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def error_of(write: Callable[[pa.Schema], None], schema: pa.Schema) -> WidetableError | None:
    try:
        write(schema)
    except WidetableError as error:
        return error
    return None


def parts(error: WidetableError | None) -> tuple[object, ...]:
    if error is None:
        return ()
    return type(error), error.code, error.subject, error.found, error.expected, error.action


def test_all_writers_refuse_the_same_columns_with_equal_errors(
    spark: SparkSession, tmp_path: Path
) -> None:
    writes = Writes(spark, tmp_path)
    for case, (columns, expected) in CASES.items():
        first, *others = [parts(error_of(write, pa.schema(columns))) for write in writes.all]
        assert first[:3] == (expected or ()), case
        assert others == [first] * 3, case


def test_a_column_of_another_writer_is_refused_where_writers_name_theirs(
    spark: SparkSession, tmp_path: Path
) -> None:
    writes, schema = Writes(spark, tmp_path), pa.schema(ANOTHERS)
    named, etl = [
        parts(error_of(w, schema)) for w in (writes.by_barrier_writer, writes.by_etl_sink)
    ]
    assert named[:4] == (
        wt.InvalidError,
        "WT-E100",
        "column 'other'",
        "a column of another writer",
    )
    assert etl == named
    for write in (writes.by_table, writes.by_stream_sink):
        assert error_of(write, schema) is None


def test_a_table_with_a_default_value_is_refused_by_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Other clients set such values; they do so before the tables are opened here."""
    Writes(spark, tmp_path).set_default()
    writes, schema = Writes(spark, tmp_path), pa.schema(CASES["accepted"][0])
    first, *others = [parts(error_of(write, schema)) for write in writes.all]
    assert first[:3] == (wt.UnsupportedError, "WT-E300", "column 'cust'")
    assert others == [first] * 3
