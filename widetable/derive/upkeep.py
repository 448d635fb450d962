"""Keeping a table in order, and what is made of it up to date: `Table.maintain`.

Raises what a Maintainer raises (operations/maintenance).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from widetable.arguments import called, flag, instance
from widetable.derive.derived_tables import DerivedTables
from widetable.operations.maintenance import (
    INTERVAL_MILLIS,
    Compact,
    Maintainer,
    Upkeep,
    compact_here,
)
from widetable.operations.maintenance_result import MaintenanceResult
from widetable.operations.open_table import OpenTable


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
    """Compact what is due, with the table's changelog, bring what is made of it up to date, and let old snapshots go:
    round after round until `stop` is set, or (once) everything now, until nothing is due.

    interval_millis: between two looks at the table. full_compaction_interval_millis: how often everything is
    compacted when something is new; None: never, but every minute for the producer `full-compaction`.
    orphans_older_than_millis: remove files that nothing names and that are so old, once a day; None: leave them.
    on_round: given what each round did. Rounds that fail are logged and done again, unless only the user can help:
    then the error is raised, and with `once` always, when all else is done. What is made of the table and fails is
    logged and tried again without `once`, whoever can help; the rest goes on. Waits while another maintainer has the
    lease (not with `once`); several at once are safe.
    """
    once = flag(once, "once")
    if stop is not None:
        instance(stop, threading.Event, "stop")
    if on_round is not None:
        called(on_round, "on_round")
    upkeep = Upkeep(
        interval_millis, full_compaction_interval_millis, expire, orphans_older_than_millis
    )
    with maintainer(table, upkeep) as its:
        if once:
            return its.run_once()
        stop, done = stop or threading.Event(), MaintenanceResult()
        while not stop.is_set():
            of_round = its.round()
            done = done.plus(of_round)
            if on_round is not None:
                on_round(of_round)
            stop.wait(its.wait_millis / 1000)
        return done


def maintainer(table: OpenTable, upkeep: Upkeep, compact: Compact = compact_here) -> Maintainer:
    """For loops of others: one round at a time, compacted by `compact`."""
    instance(upkeep, Upkeep, "upkeep")
    called(compact, "compact")
    derive = DerivedTables(table).bring_up_to_date
    return Maintainer(table._state, table._committer, upkeep, compact, derive=derive)
