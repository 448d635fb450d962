"""Maintains a table and keeps its derived data up to date: `Table.maintain`.

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

    It works in rounds until `stop` is set. With `once` it works until nothing is due. A round that fails is logged and
    repeated; an error that only the user can correct is raised. With `once` every error is raised after all other work.
    A derived table that fails is logged and retried (not with `once`); the other work goes on. Without `once` the call
    waits while another maintainer has the lease. Several maintainers at once are safe.

    Parameters
    ----------
    once : bool, default False
        Do everything now, then return.
    interval_millis : int, default 1000
        Milliseconds between two rounds.
    full_compaction_interval_millis : int, default None
        Milliseconds after which new data is compacted fully. None: never, or every minute with the changelog
        producer `full-compaction`.
    expire : bool, default True
        Expire old snapshots.
    orphans_older_than_millis : int, default None
        Remove orphans that are at least this many milliseconds old, once a day. None: keep them.
    stop : threading.Event, default None
        The call returns after the round in which this event is set. None: it does not return without `once`.
    on_round : callable, default None
        A function that is called after each round with the MaintenanceResult of the round; not with `once`.

    Returns
    -------
    MaintenanceResult
        The sum of all rounds.

    Raises
    ------
    DamagedError
        A file is damaged; without `once`, only after three rounds in a row found the damage.
    InvalidError
        An argument is out of range, or records of the table cannot be merged.
    UnsupportedError
        The table has an option that this version does not honour.
    ConflictError
        Other commits were first in each try, with `once`.
    """
    once = flag(once, "once")
    stop = threading.Event() if stop is None else instance(stop, threading.Event, "stop")
    on_round = _ignore_round if on_round is None else called(on_round, "on_round")
    upkeep = Upkeep(
        interval_millis, full_compaction_interval_millis, expire, orphans_older_than_millis
    )
    with maintainer(table, upkeep) as worker:
        return worker.run_once() if once else _run_rounds(worker, stop, on_round)


def _ignore_round(_: MaintenanceResult) -> None:
    """Ignore the result of a round: the default of `on_round`."""


def _run_rounds(
    worker: Maintainer, stop: threading.Event, on_round: Callable[[MaintenanceResult], None]
) -> MaintenanceResult:
    done = MaintenanceResult()
    while not stop.is_set():
        result = worker.round()
        done = done.plus(result)
        on_round(result)
        stop.wait(worker.wait_millis / 1000)
    return done


def maintainer(table: OpenTable, upkeep: Upkeep, compact: Compact = compact_here) -> Maintainer:
    """Make a maintainer for a loop of your own: one round at a time.

    Parameters
    ----------
    upkeep : Upkeep
        The work of the maintainer, and its intervals.
    compact : callable, default compact_here
        The function that compacts the table. By default this process compacts it.

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
