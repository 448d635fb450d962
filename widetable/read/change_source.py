"""The changes of a table's snapshots, planned one snapshot at a time: for ranges and for streams.

In: the table with the schema of the rows that are read, fixed for the life of the source; columns are matched by field
id, so that files of older and newer schemas are read alike. Out: steps (stream_plan) and picklable readers of their
splits. The changelog producer in the table's schema at a snapshot decides which changes the snapshot emits, so a later
change of that option does not affect the past.
Raises NotFoundError when a snapshot has expired or the table was dropped, InvalidError when the table was dropped and
created again, UnsupportedError when a column has changed since the start, and what reading lists raises.

    option at the snapshot      mode auto         delta             changelog
    none                        its appends       its appends       InvalidError
    input, lookup, ..           its changelog     its appends       its changelog
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from widetable.commit.barriers.barrier_state import BARRIER
from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.committed import RESTORED_FROM
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.snapshot_mark import mark_of
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.snapshots.table_identity import check_identity
from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.format.snapshot import Snapshot
from widetable.read.change_plan import plan_changes, plan_rows
from widetable.read.change_read import StreamRead, change_schema
from widetable.read.expired import expired, is_kept
from widetable.read.stream_plan import (
    Kept,
    Offset,
    Piece,
    Step,
    check_marks,
    check_offset,
    went_back,
)
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema, file_column
from widetable.schema.types import without_comments
from widetable.write.table_state import TableState

# The number of cached plans of snapshots: a batch is planned, counted and read at different times.
_CACHED_STEPS: Final = 256
# The changes to read: those of the producer, or else of appends; the records of appends; those of the producer.
MODES: Final = ("auto", "delta", "changelog")


class ChangeSource:
    """The changes of one table, for one reader; not thread-safe.
    columns: the columns that are read; arrow_schema: that of the batches, `_row_kind` last; identity: that of
    the table, which offsets include. It keeps no file open, and no snapshot from expiry. prepare: is called before each
    look for new snapshots, for a table that is brought up to date when somebody reads it.
    """

    def __init__(
        self,
        table: TableState,
        snapshots: SnapshotStore,
        live_files: LiveFiles,
        columns: Sequence[str] | None,
        identity: str,
        mode: str = "auto",
        prepare: Callable[[], object] | None = None,
    ) -> None:
        """Create a source. identity: that of the table to which all arguments belong. mode: one of MODES."""
        self._mode: Final = mode
        self._prepare: Final = prepare
        schema = table.schema
        self.columns: Final = schema.chosen(columns)
        self.arrow_schema: Final[pa.Schema] = change_schema(schema, self.columns)
        self.table: Final = table
        self.identity: Final = identity
        self._snapshots = snapshots
        self._live_files = live_files
        self._steps: OrderedDict[tuple[int, bool], Step] = OrderedDict()
        self._checked_schemas = {schema.id}
        # The marks and the newest snapshot of the last check.
        self._checked: tuple[tuple[tuple[int, str], ...], int | None] = ((), None)

    def kept(self) -> Kept:
        """Return the snapshots that exist now."""
        return Kept(self._snapshots.earliest_id(), self._snapshots.latest_id())

    def latest_id(self) -> int | None:
        """Return the id of the newest snapshot."""
        return self._snapshots.latest_id()

    def looked_for_id(self) -> int | None:
        """Look for new snapshots: return the id of the newest one, after the table was brought up to date."""
        if self._prepare is not None:
            self._prepare()
        return self.latest_id()

    def check_alive(self) -> None:
        """Check that the table still exists. Raises InvalidError if another one has its path, else NotFoundError."""
        check_identity(self.table.file_io, self.table.paths, self.identity)

    def check(self, offset: Offset, newest: int | None) -> None:
        """Check an offset. Raises InvalidError for one that this table cannot have. newest: the newest snapshot.

        It is called often: snapshots are read again only if the offset or the newest one has changed.
        """
        try:
            self._check(offset, newest)
        except InvalidError:
            self.check_alive()  # another table has other snapshots with these ids
            raise

    def _check(self, offset: Offset, newest: int | None) -> None:
        check_offset(offset, self.identity, newest, self.table.paths.root)
        key = (tuple(offset.marks.items()), newest)
        if key != self._checked:
            marks = {id: self.mark(id) for id in offset.marks}
            kept_marks = {id: mark for id, mark in marks.items() if mark is not None}
            check_marks(offset, kept_marks, self.table.paths.root)
            self._checked = key

    def mark(self, snapshot_id: int) -> str | None:
        """Return the mark of a snapshot, which tells it from others with its id; None if it is not kept."""
        snapshot = or_none(self._snapshots.load, snapshot_id)
        return None if snapshot is None else mark_of(snapshot)

    def end(self, snapshot_id: int) -> Offset:
        """Return the offset after a snapshot. If the snapshot has expired, the offset lacks its values."""
        behind = Offset(snapshot_id + 1, table=self.identity)
        snapshot = or_none(self._snapshots.load, snapshot_id)
        if snapshot is None:
            return behind
        return replace(
            behind,
            watermark=snapshot.watermark,
            barrier=_barrier(snapshot),
            last_read=mark_of(snapshot),
        )

    def first_at(self, time_millis: int) -> int | None:
        """Return the first kept snapshot that was committed at that time or later; None if all are older.

        It follows the newest older one, because times of snapshots ascend (decision 0017).
        If none is older, it is the oldest kept one. Raises DamagedError if that snapshot may be lost.
        """
        first, last = self.kept()
        if first is None or last is None:
            return None
        older = or_none(self._snapshots.by_timestamp, time_millis - 1)
        if older is None:
            return first
        return older.id + 1 if older.id < last else None

    def step(self, snapshot_id: int, is_full: bool) -> Step:
        """Return the rows (is_full) or the changes of a snapshot. Steps are cached, because planning needs them more
        than once.
        """
        key = (snapshot_id, is_full)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._planned(snapshot_id, is_full)
            if len(self._steps) > _CACHED_STEPS:
                self._steps.popitem(last=False)
        return step

    def reads(self, piece: Piece) -> list[StreamRead]:
        """Return readers of some splits, in order."""
        splits = piece.step.splits[piece.first : piece.end]
        return [StreamRead(self.table, split, self.columns) for split in splits]

    def batches(
        self, piece: Piece, metadata: Mapping[str, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some splits, in order. metadata: of the batches."""
        for read in self.reads(piece):
            yield from read.to_batches(use_threads=True, metadata=metadata)

    def _planned(self, snapshot_id: int, is_full: bool) -> Step:
        """Plan one snapshot. If it does not exist, the error says why.

        The identity of the table is checked last, after an error too. If it were checked first, a
        table that is dropped and created again in between would be planned as if it were the one with
        which the reader began.
        """
        try:
            snapshot = self._snapshots.load(snapshot_id)
            self._check_columns(self.table.schema_of(snapshot.schema_id))
            plan = plan_rows if is_full else plan_changes
            producer = self._producer_after(snapshot) if is_full else self._producer_at(snapshot)
            splits = plan(self._live_files, snapshot, self.table.schema, producer)
        except NotFoundError as cause:
            if is_kept(self.table.file_io, self.table.paths, snapshot_id):
                raise
            raise expired(self.table, snapshot_id) from cause
        finally:
            self.check_alive()  # so the plan is that of the table that exists now
        target = None if is_full else snapshot.properties.get(RESTORED_FROM)
        return Step(
            snapshot_id,
            is_full,
            splits,
            snapshot.watermark,
            _barrier(snapshot),
            mark_of(snapshot),
            None if target is None else went_back(snapshot_id, target, self.table.paths.root),
        )

    def _producer_at(self, snapshot: Snapshot) -> str:
        options = self.table.schema_of(snapshot.schema_id).typed_options
        producer = options.get(opt.CHANGELOG_PRODUCER)
        if self._mode == "changelog" and producer == "none":
            raise InvalidError(
                "mode",
                found=f"'changelog', but the table had no changelog producer at snapshot {snapshot.id}",
                expected="snapshots with a changelog",
                action="Choose another range, or the mode 'auto', 'delta' or 'diff'.",
            )
        return self._readable("none" if self._mode == "delta" else producer)

    def _readable(self, producer: str) -> str:
        """Return the producer. Raises UnsupportedError if records are changes as they are written, but have no bucket
        yet: a reader that begins between a write and its compaction would see neither.
        """
        if producer == "none" and self.table.schema.postpones_buckets:
            raise UnsupportedError(
                f"changes of {self.table.paths.root}",
                found="records as they were written, in a table with postponed buckets (bucket = -2)",
                expected="a changelog, which has a record when it gets its bucket",
                action="Set changelog-producer to lookup or full-compaction, and read its changes, or scan the table.",
            )
        return producer

    def _producer_after(self, snapshot: Snapshot) -> str:
        """Return the producer of the next changes: an alter since the snapshot decides to which rows they apply."""
        next_id = snapshot.id + 1
        last = self.latest_id()
        if last is not None and next_id <= last:
            return self._producer_at(self._snapshots.load(next_id))
        return self._readable(self.table.schema.typed_options.get(opt.CHANGELOG_PRODUCER))

    def _check_columns(self, newer: TableSchema) -> None:
        """Raise UnsupportedError if the table's columns have changed so that this reader must start again.

        newer: any schema of a snapshot. An older one is never refused: its files are read with the
        present columns. Files of a later one cannot be read with the old type of a column, nor give
        null for a NOT NULL column that was dropped. This reader ignores columns that were added.
        """
        if newer.id in self._checked_schemas:
            return
        for name in self.columns:
            ours = self.table.schema.field(name)
            theirs = file_column(ours, newer)
            is_gone = theirs is None and not ours.type.nullable
            is_other = theirs is not None and (
                without_comments(theirs.type) != without_comments(ours.type)
            )
            if newer.id > self.table.schema.id and (is_gone or is_other):
                raise UnsupportedError(
                    f"column {name!r}",
                    found=f"the type {theirs.type}" if theirs else "no such column",
                    expected=f"the type {ours.type}, which it had when this reader started",
                    action="Start the reader again: it continues with the column as it is now.",
                )
        self._checked_schemas.add(newer.id)


def _barrier(snapshot: Snapshot) -> int | None:
    """Return a snapshot's barrier; None if it is not a number: another client may have set the property."""
    text = snapshot.properties.get(BARRIER)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
