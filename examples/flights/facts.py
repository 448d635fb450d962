"""One row per flight with everything that will ever be known about it, joined by plain Spark.

In: the Parquet copies of the data set. Out: an Arrow table and Parquet files with the columns of
`FACT_SCHEMA`. These joins only prepare the input: the weather at the origin in the departure hour
has to be looked up by (origin, time_hour) before a stream of it can be keyed by flight, and so for
aircraft and destination. What the wide table replaces is the join of the four streams.

`has_weather` tells a flight without any weather row from one whose readings are all null.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.flights.wide_table import GROUPS, KEY, KEY_FIELDS
from examples.flights.workspace import Workspace

FACT_SCHEMA = pa.schema(
    [
        *KEY_FIELDS,
        pa.field("minute", pa.int32()),
        pa.field("has_weather", pa.bool_()),
        *(field for group in GROUPS for field in group.values),
    ]
)


def join_facts(spark: SparkSession, workspace: Workspace) -> pa.Table:
    """Join flights, airlines, airports, planes, weather; store the facts, return them sorted."""

    def source(name: str) -> DataFrame:
        return spark.read.parquet(str(workspace.dataset / f"{name}.parquet"))

    airlines = source("airlines").withColumnRenamed("name", "airline")
    destinations = source("airports").select(
        F.col("faa").alias("dest"),
        F.col("name").alias("dest_name"),
        F.col("lat").alias("dest_lat"),
        F.col("lon").alias("dest_lon"),
    )
    planes = source("planes").select(
        "tailnum",
        F.col("year").alias("plane_year"),
        F.col("manufacturer").alias("plane_maker"),
        F.col("model").alias("plane_model"),
        F.col("engines").alias("plane_engines"),
        F.col("seats").alias("plane_seats"),
    )
    weather = source("weather").withColumn("weather_row", F.lit(True))
    joined = (
        source("flights")
        .join(airlines, "carrier", "left")
        .join(destinations, "dest", "left")
        .join(planes, "tailnum", "left")
        .join(weather, ["origin", "time_hour"], "left")
        .withColumn("has_weather", F.coalesce("weather_row", F.lit(False)))
        .select(*FACT_SCHEMA.names)
    )
    joined.write.parquet(str(workspace.facts))
    return read_facts(workspace)


def read_facts(workspace: Workspace) -> pa.Table:
    """The stored facts, sorted by the key."""
    table = pq.read_table(workspace.facts, columns=FACT_SCHEMA.names).cast(FACT_SCHEMA)
    return table.sort_by([(name, "ascending") for name in KEY])
