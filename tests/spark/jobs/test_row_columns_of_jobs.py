"""`etl.sink(.., row_columns=)`: rows of a job's batch that carry different columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark

DDL = "id BIGINT, city STRING, street STRING, at BIGINT, note STRING, written ARRAY<STRING>"
COLUMNS = {"id": "BIGINT", "city": "STRING", "street": "STRING", "at": "BIGINT", "note": "STRING"}
OPTIONS = {
    "merge-engine": "partial-update",
    "fields.at.sequence-group": "city,street",
    "bucket": "1",
    "widetable.barrier-interval": "100 ms",
}
OPTIONS_OF_NOTES = {"bucket": "1", "widetable.barrier-interval": "100 ms"}
LINES = [
    {"id": 1, "city": "Bergen", "street": "Strand", "at": 1},
    {"id": 1, "note": "a"},
    {"id": 2, "city": "Bari", "street": None, "at": 2},
    {"id": 1, "note": "b"},
]


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    catalog = wt.Catalog(tmp_path / "wh")
    catalog.create_table("db.places", COLUMNS, primary_key=["id"], options=OPTIONS)
    notes = {"id": "BIGINT", "note": "STRING"}
    catalog.create_table("db.notes", notes, primary_key=["id"], options=OPTIONS_OF_NOTES)
    return catalog


def came(spark: SparkSession, folder: Path, *lines: dict[str, Any]) -> DataFrame:
    """One file, whose rows one task reads in their order."""
    folder.mkdir()
    body = "".join(json.dumps({"written": list(line), **line}) + "\n" for line in lines)
    (folder / "1.json").write_text(body)
    return spark.readStream.schema(DDL).json(str(folder))


def run(rows: DataFrame, sink: Any, checkpoint: Path) -> None:
    stream = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    stream.trigger(availableNow=True).start().awaitTermination(120)


def values(table: wt.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]


def test_rows_of_a_root_carry_the_columns_that_they_name(
    jobs: SparkSession, catalog: wt.Catalog, tmp_path: Path
) -> None:
    rows = came(jobs, tmp_path / "in", *LINES)
    etl = widetable_spark.etl(jobs, catalog.warehouse, "root")
    run(rows, etl.sink("db.places", row_columns="written"), tmp_path / "cp")
    assert values(catalog.table("db.places")) == [
        (1, "Bergen", "Strand", 1, "b"),
        (2, "Bari", None, 2, None),
    ]


def test_each_table_of_a_job_has_its_own_column_of_names(
    jobs: SparkSession, catalog: wt.Catalog, tmp_path: Path
) -> None:
    """Also with the columns that the job may write, among which the column of names is none."""
    rows = came(jobs, tmp_path / "in", *LINES)
    notes = {"db.places": None, "db.notes": lambda df: df.where("note > ''").select("id", "note")}
    etl = widetable_spark.etl(jobs, catalog.warehouse, "root")
    sink = etl.sink(
        notes,
        {"db.places": ["city", "street", "at", "note"]},
        row_columns={"db.places": "written"},
    )
    run(rows, sink, tmp_path / "cp")
    assert values(catalog.table("db.places"))[0] == (1, "Bergen", "Strand", 1, "b")
    assert values(catalog.table("db.notes")) == [(1, "b")]


def test_a_job_of_changes_writes_the_columns_that_rows_name(
    jobs: SparkSession, catalog: wt.Catalog, tmp_path: Path
) -> None:
    columns = {"id": "BIGINT", "note": "STRING"}
    catalog.create_table("db.source", columns, primary_key=["id"], options=OPTIONS_OF_NOTES)
    source = catalog.writer("db.source", "w")
    source.write({"id": [1, 2], "note": ["a", "b"]}, barrier=100, complete=True)
    etl = widetable_spark.etl(jobs, catalog.warehouse, "copy")
    named = etl.changes("db.source").selectExpr(
        "id", "'?' AS city", "'?' AS street", "9L AS at", "note", "array('note') AS written"
    )
    run(named, etl.sink("db.places", row_columns="written"), tmp_path / "cp")
    places = catalog.table("db.places")
    assert values(places) == [(1, None, None, None, "a"), (2, None, None, None, "b")]


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ({"id": 7, "city": "Oslo", "at": 1}, "written", "id = 7, columns to write.*'street'"),
        ({"id": 7, "note": "a", "written": ["nota"]}, "written", "id = 7: found 'nota'"),
        ({"id": 7}, "nowhere", "'nowhere'.*no such column"),
        ({"id": 7}, "note", "'note'.*a column of the table"),
    ],
    ids=["part of a group", "unknown", "no column", "of the table"],
)
def test_rows_are_refused_as_in_other_writes(
    jobs: SparkSession,
    catalog: wt.Catalog,
    tmp_path: Path,
    line: dict[str, Any],
    column: str,
    message: str,
) -> None:
    rows = came(jobs, tmp_path / "in", line)
    etl = widetable_spark.etl(jobs, catalog.warehouse, "root")
    with pytest.raises(PySparkException, match=message):
        run(rows, etl.sink("db.places", row_columns=column), tmp_path / "cp")
    assert values(catalog.table("db.places")) == []


def test_what_is_no_name_of_a_column_is_refused_before_the_job_is_registered(
    jobs: SparkSession, catalog: wt.Catalog
) -> None:
    etl = widetable_spark.etl(jobs, catalog.warehouse, "root")
    for value in (1, True, b"written", ["written"], "\ud800"):
        for given in (value, {"db.places": value}):
            with pytest.raises(wt.InvalidError, match="row_columns"):
                etl.sink("db.places", row_columns=given)  # type: ignore[arg-type]
    with pytest.raises(wt.InvalidError, match=r"row_columns.*db\.places"):
        etl.sink("db.places", row_columns={"db.others": "written"})
    assert list(catalog.topology().jobs()) == []
