"""The newest reading of the weather at each airport, and all that it was before: `nyc.airport_weather`.

The readings are those of `nyc.weather`, wrong first versions among them. The table has one row for each airport.
Records come late and out of order; `wx_seq` says when a reading was issued, and decides which one is newer. With
`changelog-producer` = `input` the history has every record, those too that came late and were never in the row.

In: the files of readings, in order of arrival. Out: the table; readings that were known at the time of each row.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

import widetable as wt
from examples.flights.dimensions import WEATHER

AIRPORT_WEATHER_NAME = "nyc.airport_weather"
READ = ("temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib")

_OPTIONS: dict[str, str] = {
    "bucket": "1",
    "sequence.field": f"{WEATHER.sequence},time_hour",  # of two that are issued at once, that of the later hour
    "changelog-producer": "input",
    "history.table": f"{AIRPORT_WEATHER_NAME}_history",
}


def weather_features() -> list[pa.Field]:
    """What `with_weather` adds."""
    return [field for field in WEATHER.values if field.name in READ]


def fill_weather(catalog: wt.Catalog, files: Sequence[pa.Table]) -> wt.Table:
    """Make the table, commit the files one after the other, and let the maintainer write the history."""
    weather = catalog.create_table(
        AIRPORT_WEATHER_NAME, WEATHER.written_schema, primary_key=["origin"], options=_OPTIONS
    )
    for records in files:
        weather.write(records.select(WEATHER.written_schema.names))
    weather.maintain(once=True)
    return weather


def with_weather(weather: wt.Table, rows: pa.Table, at: str) -> pa.Table:
    """The rows with the newest reading of their airport that was issued by the time of each, null before the first."""
    return weather.point_in_time(
        rows, at, list(READ), basis="event", event_times={WEATHER.sequence: "seconds"}
    )
