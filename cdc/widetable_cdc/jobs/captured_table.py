"""One table of the source and its target: the changes of a round, and the chunks of the full copy.

    COPYING      chunk 0 ─► chunk 1 ─► ... beside rounds; a change is skipped if the chunk of its key has seen it
    STREAMING    rounds alone: the log has passed the snapshots of all chunks

A round is one commit of the target. A chunk is one commit as well (`chunk_task.py` reads it); its state is saved behind
it, so a job that is killed in between reads the chunk again, which replaces its range. One thread uses it. Raises what
reading the source and writing the target raise, and InvalidError for a truncate that is not to be applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable import InvalidError
from widetable.connector import now_millis
from widetable_cdc.applying.barrier_line import ClockLine
from widetable_cdc.applying.chunk_errors import write_chunk_errors
from widetable_cdc.applying.chunk_files import ChunkFiles
from widetable_cdc.applying.copied_rows import copied_rows
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.applying.last_states import last_states
from widetable_cdc.applying.round_rows import Reread, Round, Spares
from widetable_cdc.applying.row_events import Mask, RowEvent, RowEvents, row_events
from widetable_cdc.applying.target import Target
from widetable_cdc.columns.target_columns import TargetColumns
from widetable_cdc.columns.typed_expression import SourceRows
from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.copying.chunk_states import ChunkState
from widetable_cdc.copying.pending import not_yet_seen
from widetable_cdc.copying.range_condition import range_condition
from widetable_cdc.jobs.followed_states import FollowedState, Status
from widetable_cdc.log.changes import ChangeBatch, Kind, Relation, Transactions
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.chunk_rows import ChunkRead
from widetable_cdc.source.sorted_ranges import SortedRange
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.sql_name import quoted


@dataclass
class CapturedTable:
    """A table that a job follows.

    names: the name of each column of the source that is read, in the current form. columns: of the target. plan: the
    chunks while it is copied, else None. floor_xid: the least xmin of a snapshot that a chunk may be read in.
    may_hold_rows: whether a range that is to be read may have rows in the target. position: the LSN up to which the
    target has the changes. skips_to: changes up to this LSN are left out, and no chunk is read before it. truncate:
    "apply" deletes all rows, "ignore" keeps them, "stop" raises InvalidError. clock: the line of its barriers, if they
    are moments of the clock.
    """

    state: FollowedState
    target: Target
    names: dict[str, str]
    columns: TargetColumns
    errors: ErrorTable
    plan: ChunkPlan | None = None
    floor_xid: int = 0
    may_hold_rows: bool = True
    position: int = 0
    skips_to: int = 0
    truncate: str = "apply"
    clock: ClockLine | None = None
    _applied: set[int] = field(default_factory=set)

    @property
    def source(self) -> SourceTable:
        """The form of the source that the target has."""
        return self.state.form.table

    @property
    def key(self) -> Sequence[str]:
        """The key columns of the target."""
        return self.target.table.schema.primary_keys

    def apply(
        self,
        batches: Sequence[ChangeBatch],
        transactions: Transactions,
        fills: Mapping[str, str | None],
        names: Mapping[Relation, Mapping[str, str]],
        reread: Reread | None = None,
    ) -> bool:
        """Commit the changes of a round; return whether there was something to commit. transactions: of the round.

        fills: the values of columns that were added within the round, for rows of earlier forms. names: of the columns
        of each form, those in the target now. reread: gives rows as the source has them now (`row_reread`).
        """
        lsn = int(transactions.end_lsns[-1])
        parts = [self._events(batch, names[batch.relation]) for batch in batches]
        truncate_xid = _last_truncate(parts)
        parts = [part for part in parts if len(part)]
        if not parts:
            return False
        states = last_states(parts, fills)
        if not len(states) and states.truncate_lsn is None:
            return False
        spares = None
        if self.plan is not None and truncate_xid is not None:
            spares = self._spares(self.plan, truncate_xid)
        copying = self.plan is not None
        self.target.apply(
            Round(
                states,
                self.columns.types,
                lsn,
                self.errors,
                columns=self.columns,
                transactions=transactions,
                spares=spares,
                awaits=self._awaits if copying else None,
                reread=reread if copying else None,
                completes=not copying,
            )
        )
        if copying:
            for part in parts:
                self._applied.update(np.unique(part.event_xids).tolist())
        self.position = lsn
        self.may_hold_rows = True
        return True

    def commit_chunk(self, chunk: int, files: ChunkFiles) -> ChunkState:
        """Commit what was written of a chunk, and return its new state."""
        assert self.plan is not None, "a table that is copied has a plan"
        for rows in files.bad:
            self.errors.write_rows(rows)
        if files.messages:
            self.target.commit_chunk(files.messages)
        self.plan = self.plan.copied(chunk, files.snapshot, files.lsn)
        return next(each for each in self.plan.states if each.chunk == chunk)

    @property
    def applied(self) -> npt.NDArray[np.uint32]:
        """The transactions of this run whose changes the target has, or leaves to the copy."""
        return np.fromiter(self._applied, dtype=np.uint32)

    def condition(self, key_range: ChunkRange) -> pc.Expression:
        """Return the condition of the rows of a range that the target has of this source."""
        is_whole = key_range.kind is None and not isinstance(key_range, SortedRange)
        column = self.target.table.arrow_schema.field(
            self._target_cut(None if is_whole else key_range.column)
        )
        if isinstance(key_range, SortedRange):
            condition = key_range.condition(column)
        else:
            condition = range_condition(key_range, column)
        own = self.columns.own
        return condition if own is None else condition & own

    def streams_from(self, position: int) -> bool:
        """Return whether the copy is over: every change up to `position`, behind all of its snapshots, is applied."""
        return self.plan is not None and self.plan.is_copied and self.plan.streams(position)

    def end_copy(self) -> None:
        """Drop what only the copy needs."""
        self.plan = None
        self._applied.clear()
        self.state = replace(self.state, status=Status.STREAMING)

    def copied_columns(self) -> dict[str, str]:
        """Return the target's name of each column that the copy reads."""
        return {
            column.name: self.names[column.name]
            for column in self.source.columns
            if column.name in self.names
        }

    def selected(self) -> list[str]:
        """Return the SQL expressions by which rows of the source are read for the target."""
        columns = self.copied_columns()
        return [
            f"{self.columns.types[target].select(quoted(column))} AS {quoted(target)}"
            for column, target in columns.items()
        ]

    def typed(self, read: ChunkRead) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk with the columns of the target; bad ones go to the table of errors."""
        for batch in self.read_rows(read):
            yield self.written(batch, read.micros)

    def read_rows(self, read: ChunkRead) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk with the columns of the source; bad ones go to the table of errors."""
        for batch in read.batches:
            copied = copied_rows(batch, self.columns.types)
            if copied.bad.any():
                key = self.columns.event_key
                relation = self.state.relation
                write_chunk_errors(self.errors, relation, key, batch, copied.casts, read.lsn)
            if copied.good.num_rows:
                yield copied.good

    def written(self, batch: pa.RecordBatch, micros: int) -> pa.RecordBatch:
        """Return rows of the source with the columns of the target. micros: the time of their snapshot."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        moments = np.full(batch.num_rows, micros, dtype=np.int64)
        rows = SourceRows(columns, batch.num_rows, now_millis(), moments)
        return pa.RecordBatch.from_pydict(self.columns.rows(rows))

    def inherit(self, before: CapturedTable) -> None:
        """Take over what an earlier object of the table knows of the copy that goes on."""
        self.floor_xid = before.floor_xid
        self._applied = before._applied

    def check_truncates(self, batches: Sequence[ChangeBatch]) -> None:
        """Raise if the job is to stop at a truncate. This comes first: a change of the schema beside it may lead to a
        new copy, which would delete the rows.
        """
        if self.truncate != "stop":
            return
        for batch in batches:
            if ((batch.kinds == Kind.TRUNCATE) & (batch.end_lsns > self.position)).any():
                raise InvalidError(
                    f"table {self.state.relation}",
                    found="a TRUNCATE at the source",
                    expected="none, as the entry rules.truncate = 'stop' says",
                    action="Set it to 'apply' to delete all rows, or to 'ignore' to keep them; start the job again.",
                )

    def leave_out(self, batches: Sequence[ChangeBatch]) -> None:
        """Leave changes out that the coming copy will see: its snapshots count only if they see all of them."""
        for batch in batches:
            self._applied.update(np.unique(batch.xids).tolist())

    def _events(self, batch: ChangeBatch, names: Mapping[str, str]) -> RowEvents:
        """Return the events of a batch that are not in the target yet."""
        events = row_events(batch, self.columns.event_key, names)
        keeps: Mask = events.event_end_lsns > self.position
        if self.plan is not None:
            keeps &= self._pending(events, self.plan)
        if self.truncate != "apply":
            keeps &= events.kinds != RowEvent.TRUNCATE
        return events if keeps.all() else events.kept(keeps)

    def _pending(self, events: RowEvents, plan: ChunkPlan) -> Mask:
        """Return which events no chunk has seen. Truncates are always kept: `_spares` knows the chunks."""
        pending: Mask = np.ones(len(events), dtype=np.bool_)
        at = np.flatnonzero(events.kinds != RowEvent.TRUNCATE)
        if not len(at):
            return pending
        keys = self._chunk_keys(events.keys[self._cut_by(plan)].take(pa.array(at)), plan)
        pending[at] = not_yet_seen(keys, events.event_xids[at], plan)
        return pending

    def _cut_by(self, plan: ChunkPlan) -> str:
        column = plan.key_column
        return self.names[column] if column is not None else self.columns.event_key[0]

    def _target_cut(self, column: str | None) -> str:
        """Return the column of the target's key by which its chunks are cut. column: that of the source."""
        name = None if column is None else self.columns.key_of(self.names[column])
        return self.key[0] if name is None else name

    def _chunk_keys(self, texts: pa.Array, plan: ChunkPlan) -> pa.Array:
        return self.columns.types[self._cut_by(plan)].from_texts(texts).values

    def _awaits(self, keys: pa.RecordBatch) -> Mask:
        """Return which keys lie in chunks that are still to be read: their snapshots will see what is applied now."""
        assert self.plan is not None, "a table that is copied has a plan"
        unread = np.array([each.snapshot is None for each in self.plan.states], dtype=np.bool_)
        awaited: Mask = unread[self.plan.places_of(keys.column(self._cut_by(self.plan)))]
        return awaited

    def _spares(self, plan: ChunkPlan, xid: int) -> Spares:
        """Return which keys a truncate leaves alone: those of chunks whose snapshot sees it."""

        def spares(keys: pa.RecordBatch) -> Mask:
            xids: npt.NDArray[np.uint32] = np.full(keys.num_rows, xid, dtype=np.uint32)
            seen: Mask = ~not_yet_seen(keys.column(self._target_cut(plan.key_column)), xids, plan)
            return seen

        return spares


def _last_truncate(parts: Sequence[RowEvents]) -> int | None:
    """Return the transaction of the last truncate of a round; None without."""
    for part in reversed(parts):
        truncates = np.flatnonzero(part.kinds == RowEvent.TRUNCATE)
        if len(truncates):
            return int(part.event_xids[truncates[-1]])
    return None
