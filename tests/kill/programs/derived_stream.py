"""A derived job that is killed at one of its publishes: sums of x and counts of y, into two tables.

    derived_stream.py WAREHOUSE CHECKPOINT END PUBLISH WHEN

It runs until the file END is there and its tables have come to the barrier that stands in it. Before or after (WHEN)
the driver's publish of the number PUBLISH, 0 for none, the driver, its JVM and all of their children die by -9.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
import widetable_spark
from widetable.storage.local import LocalFileIO

GROUPS = 3
SUMS, COUNTS = "d.sums", "d.counts"


def main() -> None:
    warehouse, checkpoint, end, publish, when = sys.argv[1:]
    _die_at(int(publish), when)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config(map=widetable_spark.local_checkpoints())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    etl = widetable_spark.etl(spark, warehouse, "totals")

    def of(name: str) -> DataFrame:
        value = sf.col("v") if name == "x" else sf.lit(0).cast("long")
        return etl.changes(f"d.{name}", ["id", "v"]).select(
            (sf.col("id") % GROUPS).alias("id"),
            value.alias("v"),
            sf.lit(int(name == "y")).cast("long").alias("n"),
            "_row_kind",
        )

    both = of("x").unionByName(of("y")).groupBy("id")
    totals = both.agg(
        widetable_spark.signed_sum("v").alias("s"), widetable_spark.signed_sum("n").alias("n")
    )
    sink = etl.sink(
        {SUMS: lambda df: df.select("id", "s"), COUNTS: lambda df: df.select("id", "n")}
    )
    query = (
        totals.writeStream.outputMode("update")
        .foreachBatch(sink)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    catalog = wt.Catalog(warehouse)
    while not (Path(end).exists() and _is_at(catalog, int(Path(end).read_text()))):
        error = query.exception()
        if error is not None:
            raise error
        time.sleep(0.05)
    query.stop()
    spark.stop()


def _is_at(catalog: wt.Catalog, barrier: int) -> bool:
    tables = {table.table: table.barrier or 0 for table in catalog.topology().tables()}
    return min(tables[SUMS], tables[COUNTS]) >= barrier


def _die_at(number: int, when: str) -> None:
    publish, left = LocalFileIO.publish, [number]

    def killing(self: LocalFileIO, path: str, data: bytes) -> bool:
        if "/snapshot/" not in path:
            return publish(self, path, data)
        left[0] -= 1
        if left[0] == 0 and when == "before":
            os.killpg(0, signal.SIGKILL)
        done = publish(self, path, data)
        if left[0] == 0:
            os.killpg(0, signal.SIGKILL)
        return done

    LocalFileIO.publish = killing  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
