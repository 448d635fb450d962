"""Keeping a table in order, and what is made of it up to date: `Table.maintain`.

Raises what a Maintainer raises (operations/maintenance/maintenance).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from widetable.arguments import called, flag, instance
from widetable.derive.upkeep.derived_tables import DerivedTables
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.maintenance.maintenance import (
    INTERVAL_MILLIS,
    Compact,
    Maintainer,
    Upkeep,
    compact_here,
)
from widetable.operations.maintenance.maintenance_result import MaintenanceResult


def maintain(
    table: OpenTable,
    *,
    once: bool = False,
    interval_millis: int = INTERVAL_MILLIS,
    full_compaction_interval_millis: int | None = None,
    expire: bool = True,
    orphans_older_than_millis: int | None = None,
    stop: threading.Event | None = None,
    on_round: Callable[[MaintenanceResult], None] | None = None,
) -> MaintenanceResult:
    """Maintain the table: compact, expire, and bring derived tables up to date.

    It works in rounds until `stop` is set. With `once` it does everything now, until nothing is due. A round that
    fails is logged and repeated; an error that only the user can mend is raised. With `once` every error is raised,
    when all else is done. A derived table that fails is logged and tried again (not with `once`); the rest goes on.
    Without `once` the call waits while another maintainer has the lease. Several at once are safe.

    Parameters
    ----------
    once : bool, default False
        Do everything now, then return.
    interval_millis : int, default 1000
        Milliseconds between two looks at the table.
    full_compaction_interval_millis : int, default None
        Milliseconds after which everything is compacted when something is new. None: never; every minute with
        the changelog producer `full-compaction`.
    expire : bool, default True
        Let old snapshots go.
    orphans_older_than_millis : int, default None
        Remove files that nothing names and that are so many milliseconds old, once a day. None: leave them.
    stop : threading.Event, default None
        The call returns after the round in which this event is set. None: it does not return without `once`.
    on_round : callable, default None
        It is called after each round with the MaintenanceResult of the round; not with `once`.

    Returns
    -------
    MaintenanceResult
        What all rounds did together.

    Raises
    ------
    DamagedError
        A file is damaged; without `once`, when three rounds in a row found it so.
    InvalidError
        An argument is out of range, or records of the table cannot be merged.
    UnsupportedError
        The table has an option that this version does not honour.
    ConflictError
        Other commits were first again and again, with `once`.
    """
    once = flag(once, "once")
    stop = threading.Event() if stop is None else instance(stop, threading.Event, "stop")
    on_round = _nobody if on_round is None else called(on_round, "on_round")
    upkeep = Upkeep(
        interval_millis, full_compaction_interval_millis, expire, orphans_older_than_millis
    )
    with maintainer(table, upkeep) as its:
        return its.run_once() if once else _rounds(its, stop, on_round)


def _nobody(_: MaintenanceResult) -> None:
    """Hear of a round, and do nothing."""


def _rounds(
    its: Maintainer, stop: threading.Event, on_round: Callable[[MaintenanceResult], None]
) -> MaintenanceResult:
    done = MaintenanceResult()
    while not stop.is_set():
        of_round = its.round()
        done = done.plus(of_round)
        on_round(of_round)
        stop.wait(its.wait_millis / 1000)
    return done


def maintainer(table: OpenTable, upkeep: Upkeep, compact: Compact = compact_here) -> Maintainer:
    """Make a maintainer for a loop of your own: one round at a time.

    Parameters
    ----------
    upkeep : Upkeep
        What the maintainer does, and how often.
    compact : callable, default compact_here
        How the table is compacted. By default this process compacts it.

    Returns
    -------
    Maintainer
        The maintainer; close it, or use `with`.

    Raises
    ------
    InvalidError
        `upkeep` is no Upkeep, or `compact` cannot be called.
    """
    instance(upkeep, Upkeep, "upkeep")
    called(compact, "compact")
    derive = DerivedTables(table).bring_up_to_date
    return Maintainer(table._state, table._committer, upkeep, compact, derive=derive)
