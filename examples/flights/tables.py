"""All tables of the demo, in the workspace's warehouse."""

from __future__ import annotations

from dataclasses import dataclass

import widetable as wt
from examples.flights.carrier_hourly import (
    HOURLY_KEY,
    HOURLY_NAME,
    HOURLY_OPTIONS,
    HOURLY_SCHEMA,
)
from examples.flights.departure_records import RECORDS_NAME, RECORDS_SCHEMA
from examples.flights.dimensions import DIMENSIONS, PLANES, WEATHER
from examples.flights.weather.departure_weather import (
    DEPARTURES_NAME,
    DEPARTURES_OPTIONS,
    DEPARTURES_SCHEMA,
)
from examples.flights.wide_table import KEY, PARTITION, STREAM_SCHEMA, TABLE_NAME, TABLE_OPTIONS
from examples.flights.workspace import Workspace


@dataclass(frozen=True)
class DemoTables:
    """wide: of flights. hourly: of the second layer. departures: with the weather that was looked up. records: all that
    was said of departures, an append table.
    """

    wide: wt.Table
    planes: wt.Table
    weather: wt.Table
    departures: wt.Table
    hourly: wt.Table
    records: wt.Table

    def of(self, name: str) -> wt.Table:
        """By its name in the catalog. Raises KeyError."""
        return self.by_name[name]

    @property
    def by_name(self) -> dict[str, wt.Table]:
        return {
            TABLE_NAME: self.wide,
            PLANES.table: self.planes,
            WEATHER.table: self.weather,
            DEPARTURES_NAME: self.departures,
            HOURLY_NAME: self.hourly,
            RECORDS_NAME: self.records,
        }


def create_tables(workspace: Workspace) -> DemoTables:
    """New and empty, beside those of aircraft and weather, which are there already: the wide table is widened from one.
    From their beginning barriers of the wide table wait for the widener.
    """
    catalog = wt.Catalog(str(workspace.warehouse))
    planes, weather = (catalog.table(group.table) for group in DIMENSIONS)
    wide = catalog.create_table(
        TABLE_NAME,
        STREAM_SCHEMA,
        primary_key=list(KEY),
        partition_by=list(PARTITION),
        options=TABLE_OPTIONS,
    )
    departures = catalog.create_table(
        DEPARTURES_NAME,
        DEPARTURES_SCHEMA,
        primary_key=list(KEY),
        options=DEPARTURES_OPTIONS,
    )
    hourly = catalog.create_table(
        HOURLY_NAME, HOURLY_SCHEMA, primary_key=list(HOURLY_KEY), options=HOURLY_OPTIONS
    )
    records = catalog.create_table(RECORDS_NAME, RECORDS_SCHEMA)
    wide.maintain(once=True)
    return DemoTables(wide, planes, weather, departures, hourly, records)


def open_tables(workspace: Workspace) -> DemoTables:
    """As a run left them. Raises NotFoundError."""
    catalog = wt.Catalog(str(workspace.warehouse))
    names = (TABLE_NAME, PLANES.table, WEATHER.table, DEPARTURES_NAME, HOURLY_NAME, RECORDS_NAME)
    return DemoTables(*(catalog.table(name) for name in names))
