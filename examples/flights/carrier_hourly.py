"""The second table: how busy and how punctual each carrier is, by month and hour of the day.

It is kept from what changes in the wide table, never from the wide table itself. What it says:

- A flight counts from the moment its schedule is known, under its month, its carrier and the local
  hour (0 to 23) in which it is scheduled to leave.
- It is cancelled when its departure is known and has no departure time: announced first, withdrawn
  later. (A flight that never had a departure record counts as a flight, not as cancelled.)
- Its delay is the arrival delay in minutes; a flight without one counts as a flight, not in the mean.

So the three streams of flights meet in one row. Beside the two numbers that people read, mean_delay and
cancelled_share, the table keeps the sums and counts that they are made of: a row that changed is
taken back with its old values (-U, -D) and added with its new ones (+I, +U), and only sums can do that.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import widetable_spark
from examples.flights.dimensions import BARRIERS

HOURLY_NAME = "nyc.carrier_hourly"
HOURLY_KEY = ("month", "carrier", "hour")
SUMS = ("flights", "delay_count", "delay_sum", "cancelled_count")

HOURLY_SCHEMA = pa.schema(
    [
        pa.field("month", pa.string(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("hour", pa.int32(), nullable=False),
        *(pa.field(name, pa.int64()) for name in SUMS),
        pa.field("mean_delay", pa.float64()),
        pa.field("cancelled_share", pa.float64()),
    ]
)
HOURLY_OPTIONS: dict[str, str] = {**BARRIERS, "bucket": "1", "merge-engine": "deduplicate"}

ROW_KIND = "_row_kind"
# What is read of a change of the wide table: few columns of many.
READ_COLUMNS = ("month", "carrier", "sched_dep_time", "dep_seq", "dep_time", "arr_delay")


def hourly_rows(changes: DataFrame) -> DataFrame:
    """Columns of `HOURLY_SCHEMA` and `_row_kind`, of changes of flights; a key whose flights are gone is deleted.

    changes: columns `READ_COLUMNS` and `_row_kind`, in any order.
    """
    is_cancelled = F.col("dep_seq").isNotNull() & F.col("dep_time").isNull()
    one = F.lit(1).cast("bigint")
    sums = {
        "delay_count": F.when(F.col("arr_delay").isNotNull(), one),
        "delay_sum": F.col("arr_delay").cast("bigint"),
        "cancelled_count": F.when(is_cancelled, one),
    }
    hour = F.expr("CAST(sched_dep_time DIV 100 AS INT)").alias("hour")
    by_hour = changes.where(F.col("sched_dep_time").isNotNull()).groupBy("month", "carrier", hour)
    counted = by_hour.agg(
        widetable_spark.signed_count().alias("flights"),
        *(
            F.coalesce(widetable_spark.signed_sum(term), F.lit(0)).alias(name)
            for name, term in sums.items()
        ),
    )
    return counted.select(
        "*",
        F.expr("delay_sum / nullif(delay_count, 0)").alias("mean_delay"),
        F.expr("cancelled_count / nullif(flights, 0)").alias("cancelled_share"),
        F.when(F.col("flights") == 0, "-D").otherwise("+U").alias(ROW_KIND),
    )
