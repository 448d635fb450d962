"""The Spark session of the benchmarks: local[2], no UI, this interpreter for the workers (as the import says)."""

from __future__ import annotations

from pyspark.sql import SparkSession

import widetable_spark
from widetable_spark.startup.java_home import ensure


def session() -> SparkSession:
    ensure()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("widetable-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(map=widetable_spark.local_checkpoints())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
