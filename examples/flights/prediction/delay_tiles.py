"""How late the flights of a carrier left an airport, hour by hour, and its windows: `nyc.departures_hourly`.

A tile has the departures that were *reported* in its hour: `dep_seq` says when the version that counts was issued. So a
tile that is complete at some moment has only what was known by then, and a late flight is in a later tile than one that
left in time. A rough first version that was corrected later is in no tile.

In: rows of flights. Out: the table, and features over windows of it at the time of each row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt

TILES_NAME = "nyc.departures_hourly"
LATE_MINUTES = 15
WINDOWS = {"1h": 1, "3h": 3, "24h": 24}  # hours, by the end of the names of features
MEASURES = ("departures", "mean_delay", "late_share")

_ENTITY = ["origin", "carrier"]
_COUNTS = ("departures", "delay_minutes", "late_departures")
_SCHEMA = pa.schema(
    [
        pa.field("origin", pa.string(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("tile", pa.timestamp("us", tz="UTC"), nullable=False),
        *(pa.field(name, pa.int64()) for name in _COUNTS),
    ]
)
_OPTIONS: dict[str, str] = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "widetable.tile-size": "1 h",
    **{f"fields.{name}.aggregate-function": "sum" for name in _COUNTS},
}


def delay_features() -> list[pa.Field]:
    """What `with_delays` adds: per window the departures, their mean delay in minutes and the share that left late."""
    kinds = dict(zip(MEASURES, (pa.int64(), pa.float64(), pa.float64()), strict=True))
    return [pa.field(f"{name}_{end}", kind) for end in WINDOWS for name, kind in kinds.items()]


def fill_tiles(catalog: wt.Catalog, flights: pa.Table) -> wt.Table:
    """Make the table and write a record for each flight that left. The engine adds them up."""
    tiles = catalog.create_table(
        TILES_NAME, _SCHEMA, primary_key=[*_ENTITY, "tile"], options=_OPTIONS
    )
    left = flights.filter(pc.is_valid(flights["dep_delay"]))
    delay = left["dep_delay"].cast(pa.int64())
    reported = left["dep_seq"].cast(pa.timestamp("s", tz="UTC"))
    columns = [
        left["origin"],
        left["carrier"],
        pc.floor_temporal(reported, unit="hour").cast(_SCHEMA.field("tile").type),
        pa.repeat(pa.scalar(1, pa.int64()), left.num_rows),
        delay,
        pc.greater(delay, LATE_MINUTES).cast(pa.int64()),
    ]
    tiles.write(pa.table(columns, schema=_SCHEMA))
    return tiles


def with_delays(tiles: wt.Table, rows: pa.Table, at: str) -> pa.Table:
    """The rows with `delay_features`, of the complete tiles before the time of each. Without departures in a window the
    mean and the share are null.
    """
    features = {
        f"{name}_{end}": wt.window(
            name, "sum" if name == "delay_minutes" else "count", f"{hours} h"
        )
        for end, hours in WINDOWS.items()
        for name in _COUNTS
    }
    summed = tiles.windows(rows, at, features=features)
    for end in WINDOWS:
        count = summed[f"departures_{end}"]
        by = pc.if_else(pc.equal(count, 0), None, count).cast(pa.float64())
        for name, total in (("mean_delay", "delay_minutes"), ("late_share", "late_departures")):
            share = pc.divide(summed[f"{total}_{end}"].cast(pa.float64()), by)
            summed = summed.append_column(f"{name}_{end}", share)
    return summed.select([*rows.column_names, *(field.name for field in delay_features())])
