"""Checkpoints on a local disk without a process for each file: Spark takes the settings; no Spark is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark


def _copied(spark: SparkSession, folder: Path) -> list[int]:
    """The keys that a query has copied by now, run from its checkpoint until no file is left."""
    rows = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
    sink = rows.parquet(f"{folder}/in").writeStream.format("parquet").outputMode("append")
    query = (
        sink.option("path", f"{folder}/out")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(row.k for row in spark.read.parquet(f"{folder}/out").collect())


def _put(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": [number]}), folder / "in" / f"{number}.parquet")


def test_a_query_goes_on_from_a_checkpoint_that_has_no_files_of_checksums(
    spark: SparkSession, tmp_path: Path
) -> None:
    _put(tmp_path, 1)
    _put(tmp_path, 2)
    assert _copied(spark, tmp_path) == [1, 2]
    _put(tmp_path, 3)
    assert _copied(spark, tmp_path) == [1, 2, 3]
    names = {path.name for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()}
    assert {"metadata", "0", "1", "2"} <= names
    assert not [name for name in names if name.endswith(".crc")]


def test_what_is_missing_is_named_where_no_spark_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-sql_2.13-4.3.0.jar").write_bytes(b"no jar")
    monkeypatch.setitem(os.environ, "SPARK_HOME", str(tmp_path))
    with pytest.raises(wt.NotFoundError, match="set SPARK_HOME") as refused:
        widetable_spark.local_checkpoints()
    assert str(tmp_path / "jars") in str(refused.value)
