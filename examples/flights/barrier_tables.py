"""The three tables of the third layer, which are under barriers: aircraft, flights that are widened by them, and the
counts that a job makes of the flights.

`nyc.flights_wide` is not under barriers, where changes wait for the slowest stream of a table. So the streams of
flights fill a table beside it, in the same way, with the columns that `nyc.carrier_hourly` is made of, and the tail
number. It holds the flights of the first months only.

Beside their content, here is what is said of them whenever they are read at one moment: the `Totals` of flights and
counts are equal, and each flight has the maker of its aircraft (`astray`). All is pure but `create_barrier_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt
from examples.flights.carrier_hourly import HOURLY_KEY, HOURLY_SCHEMA, SUMS
from examples.flights.column_group import ColumnGroup
from examples.flights.dimensions import PLANES, dimension_options
from examples.flights.wide_table import ARRIVAL, DEPARTURE, KEY, KEY_FIELDS, PARTITION, SCHEDULE
from examples.flights.workspace import Workspace

FLIGHTS_NAME = "nyc.flights_at_barriers"
COUNTS_NAME = "nyc.hourly_at_barriers"
PLANES_NAME = "nyc.planes_at_barriers"
BARRIER_TABLES = (FLIGHTS_NAME, COUNTS_NAME, PLANES_NAME)
INTERVAL_MILLIS = 1_000
MONTH_COUNT = 3


def _narrow(group: ColumnGroup, table: str, *columns: str) -> ColumnGroup:
    values = tuple(field for field in group.values if field.name in columns)
    return ColumnGroup(group.name, table, group.key, group.sequence, values)


COUNTED_GROUPS = (
    _narrow(SCHEDULE, FLIGHTS_NAME, "sched_dep_time", "tailnum"),
    _narrow(DEPARTURE, FLIGHTS_NAME, "dep_time"),
    _narrow(ARRIVAL, FLIGHTS_NAME, "arr_delay"),
)
AIRCRAFT = _narrow(PLANES, PLANES_NAME, "manufacturer")
BARRIER_STREAMS = (*COUNTED_GROUPS, AIRCRAFT)
MAKER = "plane_maker"
STREAMED_SCHEMA = pa.schema([*KEY_FIELDS, *(f for group in COUNTED_GROUPS for f in group.fields)])
# What is compared: all but the number of the round in which a flight was widened.
FLIGHTS_SCHEMA = pa.schema([*STREAMED_SCHEMA, pa.field(MAKER, pa.string())])
COUNTS_SCHEMA = pa.schema([HOURLY_SCHEMA.field(name) for name in (*HOURLY_KEY, *SUMS)])

_BARRIERS = {"widetable.barrier-interval": f"{INTERVAL_MILLIS} ms", "bucket": "1"}
FLIGHTS_OPTIONS: dict[str, str] = {
    **_BARRIERS,
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "changelog-producer.row-deduplicate": "true",
    **{
        f"fields.{group.sequence}.sequence-group": ",".join(group.value_names)
        for group in COUNTED_GROUPS
    },
    "widen.tailnum": f"{PLANES_NAME}(manufacturer as {MAKER})",
}
PLANES_OPTIONS: dict[str, str] = {**_BARRIERS, **dimension_options(AIRCRAFT)}
COUNTS_OPTIONS: dict[str, str] = {**_BARRIERS, "merge-engine": "deduplicate"}


def create_barrier_tables(workspace: Workspace) -> tuple[wt.Table, wt.Table, wt.Table]:
    """New and empty, in the order of `BARRIER_TABLES`. From their beginning barriers wait for the widener."""
    catalog = wt.Catalog(str(workspace.warehouse))
    planes = catalog.create_table(
        PLANES_NAME,
        AIRCRAFT.written_schema,
        primary_key=AIRCRAFT.key_names,
        options=PLANES_OPTIONS,
    )
    flights = catalog.create_table(
        FLIGHTS_NAME,
        STREAMED_SCHEMA,
        primary_key=list(KEY),
        partition_by=list(PARTITION),
        options=FLIGHTS_OPTIONS,
    )
    counts = catalog.create_table(
        COUNTS_NAME, COUNTS_SCHEMA, primary_key=list(HOURLY_KEY), options=COUNTS_OPTIONS
    )
    flights.maintain(once=True)
    return flights, counts, planes


def of_first_months(rows: pa.Table, all_months: pa.ChunkedArray) -> pa.Table:
    """Those of the months that the tables hold. all_months: of the whole data set, in any order."""
    months = sorted(all_months.unique().to_pylist())[:MONTH_COUNT]
    return rows.filter(pc.is_in(rows["month"], pa.array(months, pa.string())))


@dataclass(frozen=True)
class Totals:
    """Over a whole table. flights: whose schedule is known; delay_sum: minutes; the others are numbers of flights."""

    flights: int
    delay_count: int
    delay_sum: int
    cancelled_count: int

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Totals:
        return cls(**{name: values[name] for name in SUMS})

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {value:,}" for name, value in zip(SUMS, astuple(self), strict=True)
        )


FLIGHTS_READ = ("sched_dep_time", "dep_seq", "dep_time", "arr_delay")


def totals_of_flights(rows: pa.Table) -> Totals:
    """Counted over rows of `nyc.flights_at_barriers`, columns `FLIGHTS_READ`."""
    known = rows.filter(pc.is_valid(rows["sched_dep_time"]))
    is_cancelled = pc.and_(pc.is_valid(known["dep_seq"]), pc.is_null(known["dep_time"]))
    return Totals(
        flights=known.num_rows,
        delay_count=pc.count(known["arr_delay"]).as_py(),
        delay_sum=pc.sum(known["arr_delay"]).as_py() or 0,
        cancelled_count=pc.sum(is_cancelled).as_py() or 0,
    )


FLIGHTS_LOOKED_AT = (*FLIGHTS_READ, "tailnum", MAKER)


def astray(flights: pa.Table, planes: pa.Table) -> int:
    """Flights that have another maker than their aircraft has. flights: of `nyc.flights_at_barriers`; planes: of
    `nyc.planes_at_barriers`.
    """
    places = pc.index_in(flights["tailnum"], value_set=planes["tailnum"].combine_chunks())
    makers = planes["manufacturer"].combine_chunks().take(places)
    differ = pc.not_equal(pc.fill_null(flights[MAKER], ""), pc.fill_null(makers, ""))
    return pc.sum(differ).as_py() or 0


def totals_of_counts(rows: pa.Table) -> Totals:
    """Summed up over rows of `nyc.hourly_at_barriers`."""
    return Totals.of({name: pc.sum(rows[name]).as_py() or 0 for name in SUMS})
