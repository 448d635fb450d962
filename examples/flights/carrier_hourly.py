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

`signed_deltas` is what Spark computes of a batch of changes; `changed_rows` what the driver makes of
these sums and the rows that are there. Both are pure.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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
DELTA_SCHEMA = pa.schema(
    [HOURLY_SCHEMA.field(name).with_nullable(True) for name in (*HOURLY_KEY, *SUMS)]
)
HOURLY_OPTIONS: dict[str, str] = {"bucket": "1", "merge-engine": "deduplicate"}

ROW_KIND = "_row_kind"
# What the second layer reads of a change of the wide table: few columns of many.
READ_SCHEMA = (
    "month STRING, carrier STRING, sched_dep_time INT, dep_seq BIGINT, dep_time INT, "
    f"arr_delay INT, {ROW_KIND} STRING"
)


def signed_deltas(changes: DataFrame) -> DataFrame:
    """What a batch of changes adds to the sums of each key; keys to which it adds nothing are left out.

    changes: columns of `READ_SCHEMA`, rows in any order. Out: columns of `DELTA_SCHEMA`.
    """
    sign = F.when(F.col(ROW_KIND).isin("+I", "+U"), F.lit(1)).otherwise(F.lit(-1)).cast("bigint")
    is_cancelled = F.col("dep_seq").isNotNull() & F.col("dep_time").isNull()
    terms = {
        "flights": sign,
        "delay_count": F.when(F.col("arr_delay").isNotNull(), sign),
        "delay_sum": sign * F.col("arr_delay"),
        "cancelled_count": F.when(is_cancelled, sign),
    }
    sums = changes.where(F.col("sched_dep_time").isNotNull()).groupBy(
        "month", "carrier", F.expr("CAST(sched_dep_time DIV 100 AS INT)").alias("hour")
    )
    return sums.agg(
        *(F.coalesce(F.sum(term), F.lit(0)).alias(name) for name, term in terms.items())
    ).where(" OR ".join(f"{name} <> 0" for name in SUMS))


def changed_rows(deltas: pa.Table, present: pa.Table) -> pa.Table:
    """The rows that the deltas make: `HOURLY_SCHEMA` and `_row_kind`, in the order of the deltas.

    present: the row of each delta's key, or nulls where there is none (`Table.lookup`). A key whose
    flights come to zero is deleted. Raises ValueError when something is taken back that was never
    added: then the changes, or the rows that are there, are wrong.
    """
    is_there = pc.is_valid(present["flights"])
    sums = {
        name: pc.add(pc.fill_null(present[name], pa.scalar(0, pa.int64())), deltas[name])
        for name in SUMS
    }
    _require_sense(deltas, sums)
    is_empty = pc.equal(sums["flights"], 0)
    rows = pa.table(
        {
            **{name: deltas[name] for name in HOURLY_KEY},
            **sums,
            "mean_delay": _ratio(sums["delay_sum"], sums["delay_count"]),
            "cancelled_share": _ratio(sums["cancelled_count"], sums["flights"]),
            ROW_KIND: pc.if_else(is_empty, "-D", pc.if_else(is_there, "+U", "+I")),
        },
        schema=HOURLY_SCHEMA.append(pa.field(ROW_KIND, pa.string())),
    )
    return rows.filter(pc.or_(is_there, pc.invert(is_empty)))


def _ratio(dividend: pa.ChunkedArray, divisor: pa.ChunkedArray) -> pa.ChunkedArray:
    """As float64; null where the divisor is 0."""
    safe = pc.if_else(pc.equal(divisor, 0), pa.scalar(None, pa.int64()), divisor)
    return pc.divide(dividend.cast(pa.float64()), safe.cast(pa.float64()))


def _require_sense(deltas: pa.Table, sums: dict[str, pa.ChunkedArray]) -> None:
    """No count below zero, none above the number of flights; nothing left where no flight is."""
    flights = sums["flights"]
    senseless = pc.less(flights, 0)
    for name in ("delay_count", "cancelled_count"):
        senseless = pc.or_(senseless, pc.less(sums[name], 0))
        senseless = pc.or_(senseless, pc.greater(sums[name], flights))
    no_delays = pc.equal(sums["delay_count"], 0)
    senseless = pc.or_(senseless, pc.and_(no_delays, pc.not_equal(sums["delay_sum"], 0)))
    position = pc.index(senseless, True).as_py()
    if position >= 0:
        key = tuple(deltas[name][position].as_py() for name in HOURLY_KEY)
        found = {name: sums[name][position].as_py() for name in SUMS}
        raise ValueError(f"{HOURLY_NAME} {key}: sums that no flights have, {found}")
