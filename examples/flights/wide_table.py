"""The table that the demo fills: its key, its column groups, its types and its options.

A column group is what one stream owns: some value columns and the sequence column that orders the
versions of those values. The table is `partial-update` with one sequence group per column group, so
each stream brings the key and its own columns, and a version with a lower sequence than the stored
one loses whenever it arrives.

The last group has no stream: option `widen.tailnum` makes columns that follow the tail number into
`nyc.planes`, and the maintainer is their only writer. The index finds the flights of an aircraft that changed.

The table is under barriers, as `nyc.planes` and `nyc.carrier_hourly` are: the three are read at one moment. Each stream
is a job; what Spark takes belongs to the barrier that the clock is in.

Types: `time_hour` is an instant (UTC, microseconds). Clock times are local HHMM numbers as in the
data set, delays and durations are minutes, distances miles, temperatures °F, wind in mph, pressure
in millibar.
"""

from __future__ import annotations

import pyarrow as pa

from examples.flights.column_group import ColumnGroup
from examples.flights.dimensions import BARRIERS, DIMENSIONS, PLANES

TABLE_NAME = "nyc.flights_wide"
INDEX_NAME = "nyc.flights_by_tailnum"
LABEL = "arr_delay"

KEY_FIELDS: tuple[pa.Field, ...] = (
    pa.field("month", pa.string(), nullable=False),
    pa.field("time_hour", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("carrier", pa.string(), nullable=False),
    pa.field("flight", pa.int32(), nullable=False),
)
KEY = tuple(field.name for field in KEY_FIELDS)
PARTITION = ("month",)

SCHEDULE = ColumnGroup(
    "schedule",
    TABLE_NAME,
    KEY_FIELDS,
    "sched_seq",
    (
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("sched_dep_time", pa.int32()),
        pa.field("sched_arr_time", pa.int32()),
        pa.field("distance", pa.int32()),
        pa.field("airline", pa.string()),
        pa.field("dest_name", pa.string()),
        pa.field("dest_lat", pa.float64()),
        pa.field("dest_lon", pa.float64()),
        pa.field("tailnum", pa.string()),
    ),
)
DEPARTURE = ColumnGroup(
    "departure",
    TABLE_NAME,
    KEY_FIELDS,
    "dep_seq",
    (pa.field("dep_time", pa.int32()), pa.field("dep_delay", pa.int32())),
    unwritten=(
        pa.field("origin", pa.string()),
    ),  # the airport that tells it; the schedule's column
)
ARRIVAL = ColumnGroup(
    "arrival",
    TABLE_NAME,
    KEY_FIELDS,
    "arr_seq",
    (
        pa.field("arr_time", pa.int32()),
        pa.field(LABEL, pa.int32()),
        pa.field("air_time", pa.int32()),
    ),
)
GROUPS = (SCHEDULE, DEPARTURE, ARRIVAL)
STREAMS = (*GROUPS, *DIMENSIONS)

# The widened columns, by the names that they have in PLANES.
PLANE_COLUMNS = {
    "year": "plane_year",
    "manufacturer": "plane_maker",
    "model": "plane_model",
    "engines": "plane_engines",
    "seats": "plane_seats",
}
WIDENER = ColumnGroup(
    "widener",
    TABLE_NAME,
    KEY_FIELDS,
    "_widen_tailnum",
    tuple(field.with_name(PLANE_COLUMNS[field.name]) for field in PLANES.values),
)
WIDENER_USER = "widen/tailnum"
COLUMN_GROUPS = (*GROUPS, WIDENER)

# What the table is made with; the columns of the widener come by themselves.
STREAM_SCHEMA = pa.schema([*KEY_FIELDS, *(field for group in GROUPS for field in group.fields)])
# What is compared: all but the number of the round in which a flight was widened.
TABLE_SCHEMA = pa.schema([*STREAM_SCHEMA, *WIDENER.values])

TABLE_OPTIONS: dict[str, str] = {
    **BARRIERS,
    "bucket": "1",
    "merge-engine": "partial-update",
    "write-only": "true",
    # The changes of the table, with the whole row before and after; made by compactions, barrier by barrier.
    "changelog-producer": "lookup",
    # A record that comes twice, or too late to win, changes nothing and is not told.
    "changelog-producer.row-deduplicate": "true",
    **{f"fields.{group.sequence}.sequence-group": ",".join(group.value_names) for group in GROUPS},
    "widen.tailnum": (
        f"{PLANES.table}({', '.join(f'{name} as {own}' for name, own in PLANE_COLUMNS.items())})"
    ),
    "index.tailnum": INDEX_NAME,
}
