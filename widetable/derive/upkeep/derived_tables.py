"""The maintainer of a table keeps its derived data up to date: indexes, widened columns, its history, tiles, its join.

    each in turn ─► rows written
          └─ fails ─► logged, and retried after a pause that grows; the others go on, and so does compaction

So a dim that was altered, or a join key with too many rows, does not affect the others. Raises what reading the table's
schema raises; errors of the derivations are returned.

    ConflictError                       another commit was first: retry in the next round, no error
    NotFoundError, the first in a row   perhaps a snapshot that expired during the read: retry at once, logged
    StorageError                        retry at once: the maintainer pauses all work, and frees space
    any other                           a warning; the pause grows with each failure in a row
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from widetable.derive.indexes.index_table import IndexRound, feed_index
from widetable.derive.joins.delta_join import JoinRound, join_round
from widetable.derive.tiles.tile_feed import TileRound, feed_tiles
from widetable.derive.versions.history_feed import HistoryRound, feed_history
from widetable.derive.widening.widen_at_barrier import let_wideners_leave, widen_to_barrier
from widetable.derive.widening.widen_commits import WidenRound
from widetable.derive.widening.widening import widen_round
from widetable.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    WidetableError,
)
from widetable.format.human_units import duration_text
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.maintenance.maintenance import INTERVAL_MILLIS, Derived
from widetable.operations.maintenance.maintenance_result import MaintenanceResult
from widetable.operations.maintenance.maintenance_rule import wait_millis
from widetable.schema import join_options
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import index_options, widen_options
from widetable.schema.table_schema import TableSchema

# Options may be altered without a new snapshot.
_RECHECK_SECONDS: Final = 10.0
# A programming error in one derivation must not stop the others either.
_SURVIVED: Final = Exception
_log = logging.getLogger("widetable")
# The result of one derivation; None if there was nothing to do.
_Round: TypeAlias = IndexRound | WidenRound | JoinRound | HistoryRound | TileRound | None


class _Failed(NamedTuple):
    """A failed derivation. tries: the number of failures in a row. retry_seconds: the time of the next try."""

    error: Exception
    tries: int
    retry_seconds: float


class DerivedTables:
    """The derived data of one table. A table without any is checked again after a new snapshot, or after 10 s."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._nothing_at: int | None = -1
        self._checked_seconds = 0.0
        self._failed: dict[str, _Failed] = {}

    def bring_up_to_date(self, latest_id: int | None) -> Derived:
        """Run all derivations that are due. latest_id: the table's newest snapshot, None without one.

        The result has the errors of all derivations that have failed and not succeeded since, also of those that wait
        for their next try.
        """
        # An empty table is checked, too: a join begins with one.
        is_old = time.monotonic() - self._checked_seconds > _RECHECK_SECONDS
        if latest_id == self._nothing_at and not is_old:
            return Derived()
        schema = self._table.schema
        derivations = dict(_derivations(self._table, schema))
        # Another process was first, or the options name no valid tables; the derivations report the latter.
        with contextlib.suppress(ConflictError, NotFoundError, UnsupportedError, InvalidError):
            let_wideners_leave(self._table)
        if not derivations:
            self._nothing_at, self._checked_seconds = latest_id, time.monotonic()
        self._failed = {key: failed for key, failed in self._failed.items() if key in derivations}
        rounds = [self._run(key, derive) for key, derive in derivations.items()]
        errors = tuple(failed.error for failed in self._failed.values())
        at_barriers = schema.typed_options.get(BARRIER_INTERVAL) is not None
        barriers = sum(at_barriers and isinstance(done, WidenRound) for done in rounds)
        done = MaintenanceResult(
            derived_rows=sum(map(_rows, rounds)),
            derived_failures=len(errors),
            derived_barriers=barriers,
        )
        return Derived(done, errors)

    def _run(self, key: str, derive: Callable[[], _Round]) -> _Round:
        before = self._failed.get(key)
        if before is not None and time.monotonic() < before.retry_seconds:
            return None
        try:
            done = derive()
        except ConflictError as error:
            _log.info("option %r of %s is retried: %s", key, self._table.path, error)
        except _SURVIVED as error:
            self._note(key, error, 1 if before is None else before.tries + 1)
        else:
            self._failed.pop(key, None)
            return done
        return None

    def _note(self, key: str, error: Exception, tries: int) -> None:
        pause_millis = wait_millis(INTERVAL_MILLIS, tries)
        # A snapshot expired during the read; or, for a StorageError, the maintainer itself pauses and frees space.
        is_expired = isinstance(error, NotFoundError) and tries == 1
        if is_expired or isinstance(error, StorageError):
            pause_millis = 0
        self._failed[key] = _Failed(error, tries, time.monotonic() + pause_millis / 1000)
        warn(
            _log,
            WarningCode.DERIVED_FAILED,
            "option %r of %s failed %d times, next try in %s: %s",
            key,
            self._table.path,
            tries,
            duration_text(pause_millis),
            error,
            level=logging.INFO if is_expired else logging.WARNING,
            exc_info=None if isinstance(error, WidetableError) else error,
        )


def _derivations(
    table: OpenTable, schema: TableSchema
) -> Iterator[tuple[str, Callable[[], _Round]]]:
    """Yield the option and the function of each derivation that the schema declares."""
    for index in index_options(schema.options):
        yield index.key, partial(feed_index, table, index)
    widened = (
        widen_round if schema.typed_options.get(BARRIER_INTERVAL) is None else widen_to_barrier
    )
    for widen in widen_options(schema.options):
        yield widen.key, partial(widened, table, widen)
    if schema.typed_options.get(join_options.HISTORY_TABLE) is not None:
        yield join_options.HISTORY_TABLE.key, partial(feed_history, table)
    if schema.typed_options.get(join_options.TILES_FROM) is not None:
        yield join_options.TILES_FROM.key, partial(feed_tiles, table)
    if schema.typed_options.get(join_options.LEFT) is not None:
        yield join_options.LEFT.key, partial(join_round, table)


def _rows(done: _Round) -> int:
    """Return the number of rows that a round wrote."""
    if isinstance(done, JoinRound):
        return done.rows_added + done.rows_removed
    return 0 if done is None else done.rows
