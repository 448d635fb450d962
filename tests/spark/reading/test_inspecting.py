"""widetable_spark.inspect: the Arrow tables of `Table.inspect`, as DataFrames."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.support.tables.branched import create, opened, put
from widetable.operations.inspection.inspected_names import NAMES


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = create(tmp_path)
    put(made, {1: "a", 2: "b"})
    made.create_tag("one", time_retained_millis=60_000)
    made.create_branch("side", tag="one")
    put(opened(made, "side"), {3: "c"})
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_has_the_rows_of_the_arrow_table(
    spark: SparkSession, table: wt.Table, name: str
) -> None:
    found = widetable_spark.inspect(spark, table.path, name)
    expected = table.inspect.frame(name)
    assert found.columns == expected.column_names
    rows = found.toArrow()
    for field in expected.schema:
        values = rows[field.name].cast(field.type).to_pylist()
        assert values == expected[field.name].to_pylist(), field.name


def test_of_a_snapshot_a_tag_or_a_branch(spark: SparkSession, table: wt.Table) -> None:
    put(table, {4: "d"})
    newest, tagged, first, side = (
        widetable_spark.inspect(spark, table.path, "files", **how).count()
        for how in ({}, {"tag": "one"}, {"snapshot_id": 1}, {"branch": "side"})
    )
    assert tagged == first == table.inspect.files(snapshot_id=1).num_rows
    assert newest == table.inspect.files().num_rows
    assert side == opened(table, "side").inspect.files().num_rows
    with pytest.raises(wt.InvalidError, match="name"):
        widetable_spark.inspect(spark, table.path, "filez")
