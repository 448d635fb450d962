"""A real Spark streaming query of the kill test, through format("widetable"), that is killed whole
(driver, JVM, workers).

    spark_writer.py TABLE SOURCE CHECKPOINT MARKS

Once for each batch the sink kills everything at a point that the batch number decides: before the
table's commit, or between the table's commit and
Spark's commit log. A file in MARKS remembers that a batch was killed, so that its replay goes through.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from widetable_spark import WidetableDataSource
from widetable_spark.frames.declared_options import WRITE
from widetable_spark.startup.spark_version import StreamArrowWriter
from widetable_spark.writing.stream_sink import StreamSink

DRIVER, MARKS = "WIDETABLE_KILL_DRIVER", "WIDETABLE_KILL_MARKS"
KILLED_BATCHES = int(os.environ.get("WIDETABLE_SPARK_KILLS", "6"))


def kill_query(batch: int, point: str) -> None:
    """Kill the driver's whole process tree, this process last, unless this batch was killed before."""
    mark = Path(os.environ[MARKS]) / f"{batch}-{point}"
    if batch >= KILLED_BATCHES or any(Path(os.environ[MARKS]).glob(f"{batch}-*")):
        return
    mark.touch()
    driver = psutil.Process(int(os.environ[DRIVER]))
    tree = [driver, *driver.children(recursive=True)]
    for process in sorted(tree, key=lambda p: p.pid == os.getpid()):
        process.send_signal(signal.SIGKILL)


class KillingSink(StreamSink):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if batchId % 3 == 0:
            kill_query(batchId, "before-publish")
        super().commit(messages, batchId)
        kill_query(batchId, "before-commit-log")


class KillingSource(WidetableDataSource):
    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamArrowWriter:
        return KillingSink(self._options_of(WRITE), schema, overwrite=overwrite)


def main() -> None:
    table, source, checkpoint, marks = sys.argv[1:]
    os.environ[DRIVER], os.environ[MARKS] = str(os.getpid()), marks
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(KillingSource)
    frame = (
        spark.readStream.schema(spark.read.parquet(source).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(source)
    )
    query = (
        frame.writeStream.format("killing")
        .option("path", table)
        .option("commit-user", "writer-3")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
