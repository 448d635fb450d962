"""widetable_changes('path', start, end) in SQL."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from widetable_spark.reading.change_function import _changes_function


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> wt.Table:
    widetable_spark.register_changes(spark)
    schema = pa.schema(
        [
            pa.field("k", pa.int32(), nullable=False),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("raw", pa.binary()),
            pa.field("map", pa.map_(pa.string(), pa.int64())),
            pa.field("row", pa.struct([pa.field("x", pa.list_(pa.int32()))])),
        ]
    )
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        schema,
        primary_key=["k"],
        options={"changelog-producer": "lookup", "widetable.fsync": "false"},
    )
    row = {"k": 1, "at": 10**15, "raw": b"\\x00", "map": [("a", 1)], "row": {"x": [1, None]}}
    table.write(pa.Table.from_pylist([row, {"k": 2}], schema=schema))
    table.write(pa.Table.from_pylist([{"k": 2, "raw": b"b"}], schema=schema))
    return table


def test_a_range_of_changes_as_a_table(spark: SparkSession, table: wt.Table) -> None:
    query = f"SELECT * FROM widetable_changes('{table.path}', 0, 4)"
    found = spark.sql(query).toArrow()
    expected = table.changes(0, 4)
    assert found.schema.names == expected.schema.names
    assert found.to_pylist() == expected.to_pylist()
    counted = spark.sql(
        f"SELECT _row_kind, count(*) FROM widetable_changes('{table.path}', 2, 4) GROUP BY 1"
    )
    assert sorted(map(tuple, counted.collect())) == [("+U", 1), ("-U", 1)]


def test_a_range_that_is_not_there_is_reported(spark: SparkSession, table: wt.Table) -> None:
    with pytest.raises(Exception, match="expected a start from 0 and an end up to 4"):
        spark.sql(f"SELECT * FROM widetable_changes('{table.path}', 0, 9)").collect()
    with pytest.raises(Exception, match="expected a text literal"):
        spark.sql(
            "SELECT c.* FROM (SELECT '/x' AS p, 0 AS s) t, LATERAL widetable_changes(t.p, t.s, 1) c"
        ).collect()


def test_tables_are_opened_with_the_options_of_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = wt.Catalog(tmp_path).create_table("db.t", {"k": pa.int64()}, primary_key=["k"])
    table.write({"k": [1]})
    given: list[object] = []

    def opened(path: str, *, storage_options: dict[str, str] | None = None) -> wt.Table:
        given.append(storage_options)
        return table

    monkeypatch.setattr(wt.Table, "open", opened)
    function: Any = _changes_function({"s3.region": "x"})
    schema = function.analyze(SimpleNamespace(value=table.path), None, None).schema
    assert schema.names == ["k", "_row_kind"]
    assert [tuple(row) for row in function().eval(table.path, 0, 1)] == [(1, "+I")]
    assert given == [{"s3.region": "x"}] * 2
