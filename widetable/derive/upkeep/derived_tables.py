"""What is made of one table, kept up to date by its maintainer: indexes, widened columns, the join that it holds.

    each in turn ─► rows written
          └─ fails ─► logged, and left alone for longer each time; the others go on, and so does compaction

So a dim that was altered, or a join key with too many rows, costs nobody else anything. Raises what reading the table's
schema raises; errors of what is made of it are given back.

    ConflictError                       somebody was faster: again in the next round, no error
    NotFoundError, the first in a row   perhaps a snapshot that expired while it was read: again at once, noted
    StorageError                        again at once: the maintainer pauses for all, and makes room
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
_LOOK_AGAIN_SECONDS: Final = 10.0
# A fault of ours stops the others as little as one of theirs.
_SURVIVED: Final = Exception
_log = logging.getLogger("widetable")
# What one of the makings did; None: nothing.
_Round: TypeAlias = IndexRound | WidenRound | JoinRound | None


class _Failed(NamedTuple):
    """tries: that failed in a row. again_seconds: when the next one is due."""

    error: Exception
    tries: int
    again_seconds: float


class DerivedTables:
    """A table that has nothing of the kind is looked at again when it has a new snapshot, or after a while."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._nothing_at: int | None = -1
        self._looked_at_seconds = 0.0
        self._failed: dict[str, _Failed] = {}

    def bring_up_to_date(self, latest_id: int | None) -> Derived:
        """All that is due.
        latest_id: the table's newest snapshot, None without one. The errors are those of all
        that has failed and not succeeded since, also of what is left alone for now.
        """
        # An empty table is looked at, too: a join begins with one.
        is_old = time.monotonic() - self._looked_at_seconds > _LOOK_AGAIN_SECONDS
        if latest_id == self._nothing_at and not is_old:
            return Derived()
        schema = self._table.schema
        makings = dict(_makings(self._table, schema))
        # Somebody else was faster; or a table whose options cannot name others, which its makings say.
        with contextlib.suppress(ConflictError, NotFoundError, UnsupportedError, InvalidError):
            let_wideners_leave(self._table)
        if not makings:
            self._nothing_at, self._looked_at_seconds = latest_id, time.monotonic()
        self._failed = {key: failed for key, failed in self._failed.items() if key in makings}
        rounds = [self._made(key, make) for key, make in makings.items()]
        errors = tuple(failed.error for failed in self._failed.values())
        at_barriers = schema.typed_options.get(BARRIER_INTERVAL) is not None
        barriers = sum(at_barriers and isinstance(done, WidenRound) for done in rounds)
        done = MaintenanceResult(
            derived_rows=sum(map(_rows, rounds)),
            derived_failures=len(errors),
            derived_barriers=barriers,
        )
        return Derived(done, errors)

    def _made(self, key: str, make: Callable[[], _Round]) -> _Round:
        before = self._failed.get(key)
        if before is not None and time.monotonic() < before.again_seconds:
            return None
        try:
            done = make()
        except ConflictError as error:
            _log.info("option %r of %s goes again: %s", key, self._table.path, error)
        except _SURVIVED as error:
            self._note(key, error, 1 if before is None else before.tries + 1)
        else:
            self._failed.pop(key, None)
            return done
        return None

    def _note(self, key: str, error: Exception, tries: int) -> None:
        pause_millis = wait_millis(INTERVAL_MILLIS, tries)
        # A snapshot that expired while it was read; or the maintainer itself pauses, and makes room.
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


def _makings(table: OpenTable, schema: TableSchema) -> Iterator[tuple[str, Callable[[], _Round]]]:
    """By the option that asks for it."""
    for index in index_options(schema.options):
        yield index.key, partial(feed_index, table, index)
    widened = (
        widen_round if schema.typed_options.get(BARRIER_INTERVAL) is None else widen_to_barrier
    )
    for widen in widen_options(schema.options):
        yield widen.key, partial(widened, table, widen)
    if schema.typed_options.get(join_options.LEFT) is not None:
        yield join_options.LEFT.key, partial(join_round, table)


def _rows(done: _Round) -> int:
    """That were written."""
    if isinstance(done, JoinRound):
        return done.rows_added + done.rows_removed
    return 0 if done is None else done.rows
