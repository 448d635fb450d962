"""What readers of the third layer see while its streams run: its tables at one barrier, and the newest rows of each.

A `BarrierLook` opens a session over all three, reads them, and keeps the totals of flights and counts, and how many
flights are not as their aircraft. At a barrier the totals must be equal and no flight astray; newest rows are those of
several moments, so they need not be. `Looks` takes them; threads may share it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import widetable as wt
from examples.flights.barrier_tables import (
    BARRIER_TABLES,
    COUNTS_NAME,
    FLIGHTS_LOOKED_AT,
    FLIGHTS_NAME,
    PLANES_NAME,
    Totals,
    astray,
    totals_of_counts,
    totals_of_flights,
)
from examples.flights.carrier_hourly import SUMS
from examples.flights.workspace import Workspace

AT_BARRIER, UNCOMMITTED = "RepeatableRead", "ReadUncommitted"


@dataclass(frozen=True)
class BarrierLook:
    """at: when the session was opened, epoch seconds. barrier: None for newest rows. flights: counted over the flights
    themselves; counts: summed up over what the job made of them. astray: flights that have not the maker of their
    aircraft.
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


class Looks:
    """at_barriers: each barrier that was read, once, ascending. newest: rows without a barrier, by time."""

    def __init__(self, workspace: Workspace) -> None:
        self.at_barriers: list[BarrierLook] = []
        self.newest: list[BarrierLook] = []
        self._catalog = wt.Catalog(str(workspace.warehouse))
        self._lock = threading.Lock()

    @property
    def barrier(self) -> int:
        """The last one that was read; 0 before the first."""
        return self.at_barriers[-1].barrier or 0 if self.at_barriers else 0

    def at_barrier(self) -> bool:
        """Read the tables at their newest common barrier; False where there is none, or it was read already."""
        try:
            session = self._catalog.session(list(BARRIER_TABLES), consistency=AT_BARRIER)
        except wt.NotFoundError:  # not yet
            return False
        with session, self._lock:
            if session.barrier == self.barrier:
                return False
            self.at_barriers.append(_look(session))
            return True

    def uncommitted(self) -> None:
        """Read the newest rows of each."""
        with (
            self._lock,
            self._catalog.session(list(BARRIER_TABLES), consistency=UNCOMMITTED) as session,
        ):
            self.newest.append(_look(session))


def _look(session: wt.Session) -> BarrierLook:
    at = time.time()
    flights = session.table(FLIGHTS_NAME).scan(list(FLIGHTS_LOOKED_AT)).to_arrow()
    counts = session.table(COUNTS_NAME).scan(list(SUMS)).to_arrow()
    planes = session.table(PLANES_NAME).scan(["tailnum", "manufacturer"]).to_arrow()
    totals = totals_of_flights(flights), totals_of_counts(counts)
    return BarrierLook(at, session.barrier, *totals, astray(flights, planes))
