"""The table that the demo fills: its key, its four column groups, its types and its options.

A column group is what one stream owns: some value columns and the sequence column that orders the
versions of those values. The table is `partial-update` with one sequence group per column group, so
each stream brings the key and its own columns, and a version with a lower sequence than the stored
one loses whenever it arrives.

Types: `time_hour` is an instant (UTC, microseconds). Clock times are local HHMM numbers as in the
data set, delays and durations are minutes, distances miles, temperatures °F, wind in mph, pressure
in millibar. Sequences are epoch seconds: the moment at which the source issued the version.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TABLE_NAME = "nyc.flights_wide"
LABEL = "arr_delay"


@dataclass(frozen=True)
class ColumnGroup:
    """The columns one stream writes and, among them, the one that says which version is newer."""

    name: str
    sequence: str
    values: tuple[pa.Field, ...]

    @property
    def value_names(self) -> list[str]:
        return [field.name for field in self.values]

    @property
    def fields(self) -> list[pa.Field]:
        return [pa.field(self.sequence, pa.int64()), *self.values]

    @property
    def stream_schema(self) -> pa.Schema:
        """What a file of the stream holds: the key, the sequence, the values."""
        return pa.schema([*KEY_FIELDS, *self.fields])


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
        pa.field("plane_year", pa.int32()),
        pa.field("plane_maker", pa.string()),
        pa.field("plane_model", pa.string()),
        pa.field("plane_engines", pa.int32()),
        pa.field("plane_seats", pa.int32()),
    ),
)
DEPARTURE = ColumnGroup(
    "departure",
    "dep_seq",
    (pa.field("dep_time", pa.int32()), pa.field("dep_delay", pa.int32())),
)
ARRIVAL = ColumnGroup(
    "arrival",
    "arr_seq",
    (
        pa.field("arr_time", pa.int32()),
        pa.field(LABEL, pa.int32()),
        pa.field("air_time", pa.int32()),
    ),
)
WEATHER = ColumnGroup(
    "weather",
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
GROUPS = (SCHEDULE, DEPARTURE, ARRIVAL, WEATHER)

TABLE_SCHEMA = pa.schema([*KEY_FIELDS, *(field for group in GROUPS for field in group.fields)])

TABLE_OPTIONS: dict[str, str] = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "write-only": "true",
    # The changes of the table, with the whole row before and after; made by compactions.
    "changelog-producer": "lookup",
    # A record that comes twice, or too late to win, changes nothing and is not told.
    "changelog-producer.row-deduplicate": "true",
    **{f"fields.{group.sequence}.sequence-group": ",".join(group.value_names) for group in GROUPS},
}
