"""Write rows/s through the Spark sink against Spark's own Parquet sink, in the same session, from the same cached rows:
into a table with a key, whose rows are sorted, and into an append table.

Streaming: both read the same Parquet files with availableNow and the same maxFilesPerTrigger.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, paired, scratch, timed
from benchmarks.spark_session import session

ROWS, FILES, ROUNDS = 1_000_000, 4, 3
# With a key, and without one.
TARGETS = {True: 0.5, False: 0.8}


def run() -> list[Row]:
    spark = session()
    try:
        return [
            _compare(spark, columns, has_key=has_key) for has_key in TARGETS for columns in (10, 60)
        ]
    finally:
        spark.stop()


def _compare(spark: SparkSession, columns: int, *, has_key: bool) -> Row:
    with scratch(f"stream-{columns}") as work:
        schema = wide_schema(columns - 1)
        source = work / "source"
        source.mkdir()
        for part, keys in enumerate(
            np.array_split(np.random.default_rng(6).permutation(ROWS), FILES)
        ):
            pq.write_table(wide_rows(schema, keys, seed=part), source / f"{part}.parquet")
        options = {"write-only": "true"}
        if has_key:
            options |= {"bucket": "2", "merge-engine": "partial-update"}
        table = wt.Catalog(str(work / "w")).create_table(
            "bench.stream", schema, primary_key=["k"] if has_key else None, options=options
        )
        counter = iter(range(1000))

        def ours() -> float:
            return _stream(spark, source, work, f"o{next(counter)}", "widetable", table.path)

        def theirs() -> float:
            name = f"t{next(counter)}"
            return _stream(spark, source, work, name, "parquet", str(work / name))

        ours(), theirs()  # warm both sides: JVM, workers, kernels
        ours_s, theirs_s, ratio, pairs = paired(ours, theirs, ROUNDS)
    target = TARGETS[has_key]
    return Row(
        f"{'write' if has_key else 'append'}, {columns} columns, Spark sink",
        f"{ROWS / ours_s / 1e3:.0f} K rows/s",
        f"Parquet sink {ROWS / theirs_s / 1e3:.0f} K rows/s",
        ratio,
        f">= {target}",
        ratio >= target,
        {"pairs": pairs},
    )


def _stream(
    spark: SparkSession, source: Path, work: Path, name: str, sink: str, path: str
) -> float:
    frame: DataFrame = (
        spark.readStream.schema(spark.read.parquet(str(source)).schema)
        .option("maxFilesPerTrigger", 2)
        .parquet(str(source))
    )

    def go() -> None:
        query = (
            frame.writeStream.format(sink)
            .option("path", path)
            .option("checkpointLocation", os.fspath(work / f"cp-{name}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    return timed(go).wall
