"""Keeping a table in order, and what is made of it up to date: `Table.maintain`.

Raises what a Maintainer raises (operations/maintenance).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from widetable.arguments import called, flag, instance
from widetable.derive.delta_join import join_round
from widetable.derive.index_table import feed_index
from widetable.derive.joined_plan import definition_of
from widetable.derive.widening import widen_round
from widetable.derived_options import index_options, widen_options
from widetable.operations.maintenance import (
    INTERVAL_MILLIS,
    Compact,
    Maintainer,
    MaintenanceResult,
    Upkeep,
    compact_here,
)
from widetable.operations.open_table import OpenTable

_LOOK_AGAIN_SECONDS: Final = 10.0


class DerivedTables:
    """What is made of one table. A table that has nothing of the kind is looked at again when it has a new snapshot, or
    after a while.
    """

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._nothing_at: int | None = -1
        self._looked_at_seconds = 0.0

    def bring_up_to_date(self, latest_id: int | None) -> int:
        """How many rows that wrote."""
        # An empty table is looked at, too: a join begins with one.
        is_old = time.monotonic() - self._looked_at_seconds > _LOOK_AGAIN_SECONDS
        if latest_id == self._nothing_at and not is_old:
            return 0
        schema = self._table.schema
        indexes, widened = index_options(schema.options), widen_options(schema.options)
        joined = definition_of(schema) is not None
        if not (indexes or widened or joined):
            self._nothing_at, self._looked_at_seconds = latest_id, time.monotonic()
        fed = [feed_index(self._table, index) for index in indexes]
        rounds = [*fed, *(widen_round(self._table, widen) for widen in widened)]
        rows = sum(each.rows for each in rounds if each is not None)
        done = join_round(self._table) if joined else None
        return rows if done is None else rows + done.rows_added + done.rows_removed


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
    """Compact what is due, with the table's changelog, and let old snapshots go: round after round until `stop` is
    set, or (once) everything now.

    interval_millis: between two looks at the table. full_compaction_interval_millis: how often everything is
    compacted when something is new; None: never, but every minute for the producer `full-compaction`.
    orphans_older_than_millis: remove files that nothing names and that are so old, once a day; None: leave them.
    on_round: given what each round did. Rounds that fail are logged and done again, unless only the user can help:
    then the error is raised, and with `once` always. Waits while another maintainer has the lease (not with
    `once`); several at once are safe.
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
        return _maintain(its, once=once, stop=stop, on_round=on_round)


def maintainer(table: OpenTable, upkeep: Upkeep, compact: Compact = compact_here) -> Maintainer:
    """For loops of others: one round at a time, compacted by `compact`."""
    instance(upkeep, Upkeep, "upkeep")
    called(compact, "compact")
    derive = DerivedTables(table).bring_up_to_date
    return Maintainer(table._state, table._committer, upkeep, compact, derive=derive)


def _maintain(
    maintainer: Maintainer,
    *,
    once: bool,
    stop: threading.Event | None,
    on_round: Callable[[MaintenanceResult], None] | None,
) -> MaintenanceResult:
    if once:
        return maintainer.run_once()
    stop = stop or threading.Event()
    done = MaintenanceResult()
    while not stop.is_set():
        of_round = maintainer.round()
        done = done.plus(of_round)
        if on_round is not None:
            on_round(of_round)
        stop.wait(maintainer.wait_millis / 1000)
    return done
