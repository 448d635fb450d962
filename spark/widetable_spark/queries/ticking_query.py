"""A streaming query whose micro-batches are ticks: a real query of Spark that does the work of a driver, tick by tick.

    query = ticking_query(spark, checkpoint, 1000, "upkeep", on_tick)       on_tick(ticks, number): one after the other

Spark shows it, reports its progress to listeners, and stops it. The only rows are the ticks, which nobody reads, so the
checkpoint holds nothing that is missed: `temporary_checkpoint` makes one for a query that is given none. Raises what
starting a query raises; UnsupportedError for a session of Spark Connect, StorageError where no directory can be made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from widetable import UnsupportedError
from widetable.connector import temporary_directory

if TYPE_CHECKING:
    from pyspark import SparkContext


def ticking_query(
    spark: SparkSession,
    checkpoint: str,
    trigger_millis: int,
    name: str | None,
    on_tick: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """Start a query whose micro-batches are the ticks. They run one after the other, however long one takes."""
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = ticks.writeStream.foreachBatch(on_tick).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    return writer.trigger(processingTime=f"{trigger_millis} milliseconds").start()


def temporary_checkpoint(work: str) -> str:
    """Create a directory for a query without a checkpoint of its own. work: what it does, for the directory's name."""
    folder = temporary_directory("for the checkpoint; or give the query a checkpoint")
    return tempfile.mkdtemp(prefix=f"widetable-{work}-", dir=folder)


def driver_context(spark: SparkSession, program: str) -> SparkContext:
    """Return the context of a driver's session. program: the command that does the same without Spark."""
    try:
        return spark.sparkContext
    except PySparkException as error:
        raise UnsupportedError(
            "Spark session",
            found="a session without executors of its own (Spark Connect)",
            expected="a session of the driver",
            action=f"Run `{program}`, or call this in the driver.",
        ) from error
