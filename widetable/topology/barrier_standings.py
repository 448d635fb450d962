"""The progress of each table under barriers of a warehouse. A table that cannot be read does not hide the others.

In: a warehouse. Out: for each table under barriers the barrier up to which it is complete, or the error that reading it
raised; and the newest barrier that all tables have in common, unless one of them cannot be read. A table whose schema
cannot be read may be under barriers, so it counts as one of them. Raises what listing the tables raises.

A table that is dropped meanwhile is left out. A table whose snapshots expire meanwhile is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from widetable.errors import NotFoundError, WidetableError
from widetable.operations.barriers.common_barrier import common_barrier
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.read.barrier_view import BarrierViews
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.topology.polling import retrying_reads
from widetable.topology.warehouse import Warehouse


@dataclass(frozen=True)
class BarrierStanding:
    """Describes one table. barrier: up to it the table is complete, None before the first. missing: for how many
    writers its next barrier waits.
    """

    barrier: int | None
    missing: int


@dataclass(frozen=True)
class BarrierStandings:
    """Holds the tables by name. common: the common barrier, None without one, or if a table cannot be read."""

    tables: Mapping[str, BarrierStanding]
    unreadable: Mapping[str, WidetableError]
    common: int | None


def barrier_standings(warehouse: Warehouse) -> BarrierStandings:
    """Read how far the tables of a warehouse are now.

    Parameters
    ----------
    warehouse : Warehouse
        The catalog.

    Returns
    -------
    BarrierStandings
        The standing of each table under barriers, and the tables that cannot be read.
    """
    tables: dict[str, BarrierStanding] = {}
    unreadable: dict[str, WidetableError] = {}
    all_views = []
    for name in warehouse.list_tables():
        try:
            views = _views(warehouse, name)
            if views is not None:
                tables[name] = _standing(views)
                all_views.append(views)
        except NotFoundError as error:
            if name in warehouse.list_tables():
                unreadable[name] = error
        except WidetableError as error:
            unreadable[name] = error
    common = None if unreadable else common_barrier(all_views) or None
    return BarrierStandings(tables, unreadable, common)


@retrying_reads
def _views(warehouse: Warehouse, name: str) -> BarrierViews | None:
    """Return the barriers of a table; None for a table that is under none."""
    table = warehouse.table(name)
    if table.schema.typed_options.get(BARRIER_INTERVAL) is None:
        return None
    return barrier_views(table)


def _standing(views: BarrierViews) -> BarrierStanding:
    state = views.newest()
    missing = state.behind(state.frontier + state.interval)
    return BarrierStanding(state.frontier or None, len(missing))
