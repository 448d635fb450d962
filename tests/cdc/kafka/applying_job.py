"""A process that applies the records of a topic to a table with a stream of Spark, until it is killed or has caught up.

    python -m tests.cdc.kafka.applying_job ADDRESS TOPIC FOLDER once|always

FOLDER has the warehouse and the checkpoint. With `once` it ends when it has applied what is in the topic.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import widetable_spark
from tests.cdc.kafka.kafka_server import connector_jars
from widetable_spark.startup.java_home import ensure

TABLE = "shop.t"
RECORDS_A_BATCH = 100


def session() -> SparkSession:
    """A session with Spark's connector to Kafka."""
    os.environ["JAVA_HOME"] = ensure()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", connector_jars())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def records_of(spark: SparkSession, address: str, topic: str) -> DataFrame:
    """The stream of a topic's records from its first one."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS_A_BATCH)
        .load()
    )


def apply(spark: SparkSession, address: str, topic: str, folder: Path, how: str) -> None:
    """Run the query to its end."""
    writer = widetable_spark.cdc_apply(
        records_of(spark, address, topic), folder / "wh", TABLE, key=["id"]
    ).option("checkpointLocation", str(folder / "checkpoint"))
    trigger = {"availableNow": True} if how == "once" else {"processingTime": "0 seconds"}
    writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    _, address, topic, folder, how = sys.argv
    apply(session(), address, topic, Path(folder), how)
