"""One row per flight with all that its three streams will ever tell of it, joined by plain Spark.

In: the Parquet copies of the data set. Out: an Arrow table and Parquet files with the columns of
`FACT_SCHEMA`. These joins only prepare the input: names of airlines and places come with the schedule.
What the wide table replaces is the join of the three streams and of the aircraft.
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
        *(field for group in GROUPS for field in group.values),
    ]
)


def join_facts(spark: SparkSession, workspace: Workspace) -> pa.Table:
    """Join flights, airlines, airports; store the facts, return them sorted."""

    def source(name: str) -> DataFrame:
        return spark.read.parquet(str(workspace.dataset / f"{name}.parquet"))

    airlines = source("airlines").withColumnRenamed("name", "airline")
    destinations = source("airports").select(
        F.col("faa").alias("dest"),
        F.col("name").alias("dest_name"),
        F.col("lat").alias("dest_lat"),
        F.col("lon").alias("dest_lon"),
    )
    joined = (
        source("flights")
        .join(airlines, "carrier", "left")
        .join(destinations, "dest", "left")
        .select(*FACT_SCHEMA.names)
    )
    joined.write.parquet(str(workspace.facts))
    return read_facts(workspace)


def read_facts(workspace: Workspace) -> pa.Table:
    """The stored facts, sorted by the key."""
    table = pq.read_table(workspace.facts, columns=FACT_SCHEMA.names).cast(FACT_SCHEMA)
    return table.sort_by([(name, "ascending") for name in KEY])
