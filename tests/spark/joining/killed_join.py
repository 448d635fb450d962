"""A streaming query with a lookup join that is killed whole (driver, JVM, workers) after its sink got the first rows.

    killed_join.py DIM SOURCE CHECKPOINT OUT

OUT: a line of JSON for each batch that the sink got, [batch id, rows]. It is killed while there is one line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession

from widetable_spark import lookup_join


def main() -> None:
    dim, source, checkpoint, out = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")

    def sink(rows: DataFrame, batch_id: int) -> None:
        with Path(out).open("a") as file:
            file.write(json.dumps([batch_id, sorted(map(list, rows.collect()))]) + "\n")
        if len(Path(out).read_text().splitlines()) == 1:
            kill_all()

    left = spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 1)
    writer = lookup_join(left.parquet(source), dim, ["k"]).writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def kill_all() -> None:
    """This process last."""
    own = psutil.Process(os.getpid())
    for process in [*own.children(recursive=True), own]:
        process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    main()
