"""The two tables that flights are joined with: the aircraft by tail number, the weather by airport and hour.

Both live in a database (`source_database`), whose newest version of a row counts, whenever it arrives. A job copies
them and follows the database. Aircraft are listed from a month before their first flight to two months after it, and
some entries are corrected later. Halfway the register of aircraft gets one more column, `CHECKED`.
"""

from __future__ import annotations

import pyarrow as pa

from examples.flights.column_group import ColumnGroup

PLANES = ColumnGroup(
    "planes",
    "nyc.planes",
    (pa.field("tailnum", pa.string(), nullable=False),),
    "plane_seq",
    (
        pa.field("year", pa.int32()),
        pa.field("manufacturer", pa.string()),
        pa.field("model", pa.string()),
        pa.field("engines", pa.int32()),
        pa.field("seats", pa.int32()),
    ),
)
WEATHER = ColumnGroup(
    "weather",
    "nyc.weather",
    (
        pa.field("origin", pa.string(), nullable=False),
        pa.field("time_hour", pa.timestamp("us", tz="UTC"), nullable=False),
    ),
    "wx_seq",
    (
        pa.field("temp", pa.float64()),
        pa.field("dewp", pa.float64()),
        pa.field("humid", pa.float64()),
        pa.field("wind_dir", pa.int32()),
        pa.field("wind_speed", pa.float64()),
        pa.field("wind_gust", pa.float64()),
        pa.field("precip", pa.float64()),
        pa.field("pressure", pa.float64()),
        pa.field("visib", pa.float64()),
    ),
)
DIMENSIONS = (PLANES, WEATHER)
# The column that the register gets while the streams run.
CHECKED = pa.field("checked", pa.bool_())


# One each second, in all tables that are read at one moment.
BARRIERS: dict[str, str] = {"widetable.barrier-interval": "1 s"}


def dimension_options() -> dict[str, str]:
    """Of both tables. Flights are widened by aircraft as of each barrier; a stream looks the newest rows up."""
    return {**BARRIERS, "bucket": "1", "merge-engine": "deduplicate"}
