"""What readers see while the streams run: flights, aircraft and counts at one barrier, and the newest rows of each.

A `BarrierCheck` opens a session over the three tables, reads them, and keeps the totals of flights and counts, and how
many flights are not as their aircraft. At a barrier the totals must be equal and no flight astray; newest rows are
those of several moments, so they need not be. `BarrierChecker` takes them; threads may share it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass

import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt
from examples.flights.carrier_hourly import HOURLY_NAME, SUMS
from examples.flights.dimensions import PLANES
from examples.flights.wide_table import PLANE_COLUMNS, TABLE_NAME
from examples.flights.workspace import Workspace

BARRIER_TABLES = (TABLE_NAME, PLANES.table, HOURLY_NAME)
AT_BARRIER, UNCOMMITTED = "RepeatableRead", "ReadUncommitted"
PAUSE_SECONDS = 1.0
_PLANE_COLUMN = "manufacturer"
_MAKER = PLANE_COLUMNS[_PLANE_COLUMN]
_FLIGHTS_READ = ("sched_dep_time", "dep_seq", "dep_time", "arr_delay", "tailnum", _MAKER)


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


@dataclass(frozen=True)
class BarrierCheck:
    """at: when the session was opened, epoch seconds. barrier: None for newest rows. flights: counted over the flights
    themselves; counts: summed up over what the second layer made of them. astray: flights that have not the maker of
    their aircraft.
    """

    at: float
    barrier: int | None
    flights: Totals
    counts: Totals
    astray: int = 0

    @property
    def agrees(self) -> bool:
        return self.flights == self.counts and not self.astray

    @property
    def difference(self) -> int:
        """Flights that one table has and the counts of the other have not."""
        return self.flights.flights - self.counts.flights


@dataclass(frozen=True)
class BarrierChecks:
    """By time. at_barriers: each barrier that was read, once."""

    at_barriers: tuple[BarrierCheck, ...]
    newest: tuple[BarrierCheck, ...]

    @property
    def disagreements(self) -> tuple[BarrierCheck, ...]:
        """Newest rows of which one table has flights that the other has not counted."""
        return tuple(look for look in self.newest if look.difference)

    @property
    def passed(self) -> bool:
        """Whether all that was read at a barrier agrees, and newest rows did not always: else it would show nothing."""
        agrees = all(look.agrees for look in self.at_barriers)
        return agrees and bool(self.at_barriers) and bool(self.disagreements)


class BarrierChecker:
    """Each look reads all three tables, so there is a pause between them."""

    def __init__(self, workspace: Workspace, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._at_barriers: list[BarrierCheck] = []
        self._newest: list[BarrierCheck] = []
        self._catalog = wt.Catalog(str(workspace.warehouse))
        self._pause_seconds = pause_seconds
        self._ended = float("-inf")
        self._lock = threading.Lock()

    @property
    def taken(self) -> BarrierChecks:
        """So far."""
        return BarrierChecks(tuple(self._at_barriers), tuple(self._newest))

    @property
    def barrier(self) -> int:
        """The last one that was read; 0 before the first."""
        return self._at_barriers[-1].barrier or 0 if self._at_barriers else 0

    def look(self) -> None:
        """In both ways, where the last time is a moment ago."""
        if time.monotonic() - self._ended >= self._pause_seconds:
            self.at_barrier()
            self.uncommitted()
            self._ended = time.monotonic()

    def at_barrier(self) -> None:
        """Read the tables at their newest common barrier, if there is one that was not read yet."""
        try:
            session = self._catalog.session(list(BARRIER_TABLES), consistency=AT_BARRIER)
        except wt.NotFoundError:  # not yet
            return
        with session, self._lock:
            if session.barrier != self.barrier:
                self._at_barriers.append(_look(session))

    def uncommitted(self) -> None:
        """Read the newest rows of each."""
        with (
            self._lock,
            self._catalog.session(list(BARRIER_TABLES), consistency=UNCOMMITTED) as session,
        ):
            self._newest.append(_look(session))


def _look(session: wt.Session) -> BarrierCheck:
    at = time.time()
    flights = session.table(TABLE_NAME).scan(list(_FLIGHTS_READ)).to_arrow()
    counts = session.table(HOURLY_NAME).scan(list(SUMS)).to_arrow()
    planes = session.table(PLANES.table).scan(["tailnum", _PLANE_COLUMN]).to_arrow()
    totals = totals_of_flights(flights), totals_of_counts(counts)
    return BarrierCheck(at, session.barrier, *totals, astray(flights, planes))


def totals_of_flights(rows: pa.Table) -> Totals:
    """Counted over rows of `nyc.flights_wide`: of some columns, at least those of schedules, delays and departures."""
    known = rows.filter(pc.is_valid(rows["sched_dep_time"]))
    is_cancelled = pc.and_(pc.is_valid(known["dep_seq"]), pc.is_null(known["dep_time"]))
    return Totals(
        flights=known.num_rows,
        delay_count=pc.count(known["arr_delay"]).as_py(),
        delay_sum=pc.sum(known["arr_delay"]).as_py() or 0,
        cancelled_count=pc.sum(is_cancelled).as_py() or 0,
    )


def totals_of_counts(rows: pa.Table) -> Totals:
    """Summed up over rows of `nyc.carrier_hourly`."""
    return Totals.of({name: pc.sum(rows[name]).as_py() or 0 for name in SUMS})


def astray(flights: pa.Table, planes: pa.Table) -> int:
    """Flights that have another maker than their aircraft has. flights: of the wide table; planes: of `nyc.planes`."""
    places = pc.index_in(flights["tailnum"], value_set=planes["tailnum"].combine_chunks())
    makers = planes[_PLANE_COLUMN].combine_chunks().take(places)
    differ = pc.not_equal(pc.fill_null(flights[_MAKER], ""), pc.fill_null(makers, ""))
    return pc.sum(differ).as_py() or 0
