"""A stream of Spark that is a root: its rows come from outside, its barriers from the clock."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import widetable as wt

ROWS = 300_000


def test_its_changelog_is_there_when_it_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    """However large: the process that commits is Spark's, which ends it by force."""
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.t",
        {"k": pa.int64(), "a": pa.int64()},
        primary_key=["k"],
        options={
            "bucket": "1",
            "changelog-producer": "lookup",
            "widetable.barrier-interval": "100 ms",
            "widetable.inline-compaction-size": "0 b",
        },
    )
    (tmp_path / "in").mkdir()
    rows = pa.array(range(ROWS))
    pq.write_table(pa.table({"k": rows, "a": rows}), tmp_path / "in" / "1.parquet")
    stream = spark.readStream.schema("k bigint, a bigint").parquet(str(tmp_path / "in"))
    query = (
        stream.writeStream.format("widetable")
        .option("path", table.path)
        .option("barrier.writer", "root")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert 0 not in table.inspect.files()["level"].to_pylist()
    (root,) = table.inspect.barriers().to_pylist()
    changes = table.changes(0, root["table_barrier"], mode="barrier")
    assert changes.num_rows == ROWS
    assert set(changes["_row_kind"].to_pylist()) == {"+I"}
