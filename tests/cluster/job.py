"""The driver of the cluster's tests: writers, a maintainer and a reader of changes, all of them streams on executors.

    job.py MASTER WAREHOUSE CHECKPOINTS WRITERS BATCHES ROWS

Writer w gives row v (0, 1, ..) of its source to the key v % KEYS of db.wide, as column c<w> with its sequence s<w>. The
reader applies the changes of db.wide to db.copy. When a file ENOUGH is among the checkpoints, each writer ends with the
batch that it is at, if it has made BATCHES, and the job when db.copy has all rows of db.wide; it prints a line for each
step. A job that is started again with the same checkpoints goes on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark

KEYS = 200
ENOUGH = "enough"
_PAUSE_SECONDS = 0.2


def value_of(writer: int, row: int) -> int:
    """What a writer's row puts into its column."""
    return row * 100 + writer


class Job:
    def __init__(self, spark: SparkSession, warehouse: str, checkpoints: str, rows: int) -> None:
        self.spark = spark
        self.wide = wt.Table.open(f"{warehouse}/db.db/wide")
        self.copy = wt.Table.open(f"{warehouse}/db.db/copy")
        self.checkpoints = checkpoints
        self.rows = rows

    def write(self, writer: int) -> StreamingQuery:
        """A batch a second."""
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", self.rows)
        row = col("value")
        rows = source.option("numPartitions", 2).load()
        rows = rows.select(
            (row % KEYS).alias("k"),
            (row * 100 + writer).alias(f"c{writer}"),
            row.alias(f"s{writer}"),
        )
        stream = rows.writeStream.format("widetable").option("path", self.wide.path)
        stream = stream.option("checkpointLocation", f"{self.checkpoints}/writer{writer}")
        return stream.trigger(processingTime="1 second").start()

    def follow(self) -> StreamingQuery:
        source = self.spark.readStream.format("widetable").option("path", self.wide.path)
        source = source.option("read.changelog", "true").option("consumer-id", "copy")
        changes = source.option("scan.mode", "from-snapshot").option("scan.snapshot-id", "1").load()
        stream = changes.writeStream.format("widetable").option("path", self.copy.path)
        stream = stream.option("checkpointLocation", f"{self.checkpoints}/copy")
        return stream.trigger(processingTime="1 second").start()

    def run(self, writers: int, batches: int) -> None:
        maintainer = widetable_spark.maintain(self.spark, self.wide.path, trigger_millis=1000)
        reader = self.follow()
        queries = [self.write(writer) for writer in range(writers)]
        say("started")
        behind = set(queries)
        while behind:
            for query in [*queries, maintainer, reader]:
                check(query)
            for query in behind.copy():
                progress = query.lastProgress
                is_enough = Path(self.checkpoints, ENOUGH).exists()
                if is_enough and progress is not None and progress.batchId + 1 >= batches:
                    query.stop()
                    behind.discard(query)
                    queries.remove(query)
            time.sleep(_PAUSE_SECONDS)
        say("written")
        while not self.has_caught_up():
            check(maintainer)
            check(reader)
            time.sleep(_PAUSE_SECONDS)
        read = widetable_spark.read(self.spark, self.wide.path).toArrow().sort_by("k")
        assert read.equals(self.wide.scan().to_arrow().sort_by("k").cast(read.schema))
        say("read")
        reader.stop()
        maintainer.stop()

    def has_caught_up(self) -> bool:
        wide, copy = (
            table.scan().to_arrow().select(self.wide.schema.names).sort_by("k")
            for table in (self.wide, self.copy)
        )
        return bool(wide.equals(copy))


def check(query: StreamingQuery) -> None:
    failure = query.exception()
    if failure is not None:
        raise failure


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main() -> None:
    master, warehouse, checkpoints, writers, batches, rows = sys.argv[1:]
    spark = (
        SparkSession.builder.master(master)
        .config("spark.pyspark.python", "python3")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "700m")
        .config("spark.executor.memory", "700m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.task.maxFailures", "10")
        .config("spark.python.daemon.module", "widetable_spark.warm_daemon")
        .config(map=widetable_spark.local_checkpoints())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    Job(spark, warehouse, checkpoints, int(rows)).run(int(writers), int(batches))
    spark.stop()


if __name__ == "__main__":
    main()
