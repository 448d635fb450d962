"""Carries out a compaction of one bucket: moves files that may stay as they are, merges the others. Never commits.

In: the bucket's live files and a Choice (universal_compaction); out: a CommitMessage with the files before and after.
Source: Paimon `MergeTreeCompactTask`; format.md section 9, with docs/decisions/0002 for deletes and partial merges.

    section of several runs            merged
    section of one run, per file       moved when it has reached the target size and may stay (`_may_move`),
                                       else rewritten together with its neighbours
    a single file by itself            moved when it may stay

A moved file changes its level only. Narrow files, files whose deletes must go and files that do not say how many
deletes they have are always rewritten: above level 0 files are full width and their count of deletes is exact (traps
T1, T2). Merging streams, with row batches of all runs together within `write-buffer-size`, so a bucket may be larger
than memory. Raises what reading and writing data files raises; new files are removed then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from widetable import options as opt
from widetable.format.data_file_meta import FILE_SOURCE_COMPACT, DataFileMeta, upgrade
from widetable.format.data_file_reader import open_data_file
from widetable.lsm.levels import levels_of
from widetable.lsm.sorted_run import Section, SortedRun, sections
from widetable.lsm.universal_compaction import Choice, extend, pick, widen
from widetable.merge.engine import MergeEngine, PartialMerge
from widetable.merge.sorted_merge import merge_runs
from widetable.options import TableOptions
from widetable.schema import SEQUENCE_NUMBER, TableSchema, file_column
from widetable.write.commit_message import CommitMessage
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState

# The merge holds several batches of each run, and the writer a row group.
_BATCHES_PER_BUDGET: Final = 6
_MAX_BATCH_ROWS: Final = 64 << 10
_MIN_BATCH_ROWS: Final = 64
# A guess for the memory of compressed bytes when they are decoded.
_DECODED_PER_FILE_BYTE: Final = 4
_SYSTEM_WIDTH_BYTES: Final = 9


def plan_bucket(state: TableState, files: Iterable[DataFileMeta], *, full: bool) -> Choice | None:
    """What to compact in a bucket with these live files, or None; widened where the engine asks for the base.

    Where rows are only merged when they are read, files are moved in a full compaction and left alone otherwise: else
    every commit would look at all of them again. A bucket with files of a newer schema is left to a compactor that
    knows it: this one would lose their new columns.
    """
    files = tuple(files)
    if any(file.schema_id > state.schema.id for file in files):
        return None
    levels = levels_of(files, state.options)
    choice = pick(levels, state.options, full=full)
    if choice is None:
        return None
    allowed = _partial_merge(state, choice)
    if allowed is PartialMerge.WITH_BASE:
        return widen(levels)
    if allowed is PartialMerge.ALWAYS and state.engine.mixes_records:
        return extend(levels, choice)
    return choice if full or allowed is PartialMerge.ALWAYS else None


def compact_bucket(
    state: TableState, partition: bytes, bucket: int, total_buckets: int, choice: Choice
) -> CommitMessage:
    """Perform the choice. The message is empty when nothing had to be done.

    partition: BinaryRow, arity in front.
    """
    task = _Task(state, partition, bucket, choice)
    try:
        task.run()
    except BaseException:
        task.abort()
        raise
    return CommitMessage(
        partition,
        bucket,
        total_buckets,
        compact_before=tuple(task.before),
        compact_after=tuple(task.after),
    )


def discard(state: TableState, message: CommitMessage) -> None:
    """Delete the files that a compaction wrote. Only when its message was certainly not published."""
    state.discard(message.partition, message.bucket, message.written_files())


def _partial_merge(state: TableState, choice: Choice) -> PartialMerge:
    has_deletes = any(file.delete_row_count != 0 for file in choice.files)
    return state.engine.partial_merge(state.schema, has_deletes=has_deletes)


class _Task:
    """One compaction while it runs. before, after: files of the message; written: those of `after` that are new."""

    def __init__(self, state: TableState, partition: bytes, bucket: int, choice: Choice) -> None:
        self.before: list[DataFileMeta] = []
        self.after: list[DataFileMeta] = []
        self._written: list[DataFileMeta] = []
        self._state = state
        self._partition = partition
        self._bucket = bucket
        self._choice = choice
        self._engine: MergeEngine = state.engine
        self._keep_deletes = not choice.drop_deletes or self._engine.keeps_deletes(state.schema)
        # Nothing older stays in the bucket.
        self._becomes_base = choice.drop_deletes and self._engine.mixes_records

    def run(self) -> None:
        merges = _partial_merge(self._state, self._choice) is not PartialMerge.NEVER
        target_file_size_bytes = self._state.options.get(opt.TARGET_FILE_SIZE)
        pending: list[Section] = []
        for section in sections(self._choice.files, self._state.schema):
            if len(section.runs) > 1:
                pending.append(section)
                continue
            for file in section.files:
                if merges and (file.file_size < target_file_size_bytes or not self._may_move(file)):
                    pending.append(Section((SortedRun(file.level, (file,)),)))
                    continue
                self._merge_or_move(pending, merges=merges)
                pending = []
                if self._may_move(file):
                    self._move(file)
        self._merge_or_move(pending, merges=merges)

    def abort(self) -> None:
        self._state.discard(self._partition, self._bucket, tuple(self._written))

    def _merge_or_move(self, pending: Sequence[Section], *, merges: bool) -> None:
        files = [file for section in pending for file in section.files]
        if len(files) == 1 and self._may_move(files[0]):
            self._move(files[0])
        elif files and merges:
            self._merge(pending)

    def _may_move(self, file: DataFileMeta) -> bool:
        """Whether the file may lie at the output level as it is."""
        if file.level == self._choice.output_level:
            return True
        if file.delete_row_count is None or (file.delete_row_count and not self._keep_deletes):
            return False
        return file.level > 0 or self._is_full_width(file)

    def _move(self, file: DataFileMeta) -> None:
        if file.level != self._choice.output_level:
            self.before.append(file)
            self.after.append(upgrade(file, self._choice.output_level))

    def _is_full_width(self, file: DataFileMeta) -> bool:
        """Whether the file has all columns of its own schema that the table still has; reads its footer."""
        schema, file_schema = self._state.schema, self._state.schema_of(file.schema_id)
        with open_data_file(
            self._state.file_io, self._path(file), file, schema, file_schema
        ) as data:
            present = set(data.columns)
        held = (f.name for f in schema.fields if file_column(f, file_schema) is not None)
        return present.issuperset(held)

    def _merge(self, merged: Sequence[Section]) -> None:
        schema = self._state.schema
        writer = RollingWriter(
            self._state,
            self._partition,
            self._bucket,
            schema.names,
            level=self._choice.output_level,
            file_source=FILE_SOURCE_COMPACT,
        )
        try:
            for section in merged:
                batch_rows = merge_batch_rows(section, schema, self._state.options)
                for rows in merge_runs(
                    [self._rows(run, batch_rows) for run in section.runs],
                    schema,
                    self._engine,
                    schema.names,
                    keep_deletes=self._keep_deletes,
                    batch_rows=batch_rows,
                ):
                    writer.write(_as_oldest(rows) if self._becomes_base else rows)
            new_files = writer.finish()
        except BaseException:
            writer.abort()
            raise
        self._written += new_files
        self.before += [file for section in merged for file in section.files]
        self.after += new_files

    def _rows(self, run: SortedRun, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """A sorted run's row batches; each file is open only while it is read."""
        for file in run.files:
            with open_data_file(
                self._state.file_io,
                self._path(file),
                file,
                self._state.schema,
                self._state.schema_of(file.schema_id),
            ) as data:
                yield from data.batches(batch_rows)

    def _path(self, file: DataFileMeta) -> str:
        return self._state.data_file(self._partition, self._bucket, file.file_name)


def _as_oldest(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Sequence number 0: whatever is committed from now on sorts after the base (docs/decisions/0007)."""
    at = rows.schema.get_field_index(SEQUENCE_NUMBER)
    zeros = pa.array(np.zeros(rows.num_rows, np.int64))
    return rows.set_column(at, rows.schema.field(at), zeros)


def merge_batch_rows(section: Section, schema: TableSchema, options: TableOptions) -> int:
    """Rows per batch with which merging a section stays within `write-buffer-size`.

    A batch of every run and one of the result are counted, each row as wide as it is when it is decoded: a run of
    narrow files takes little. Wide rows need many in a batch all the same: each batch costs time per column.
    """
    row_bytes = [_decoded_row_bytes(run, schema) for run in section.runs]
    together = sum(row_bytes) + max(row_bytes)
    batch_rows = options.get(opt.WRITE_BUFFER_SIZE) // (_BATCHES_PER_BUDGET * together)
    return min(max(batch_rows, _MIN_BATCH_ROWS), _MAX_BATCH_ROWS)


def _decoded_row_bytes(run: SortedRun, schema: TableSchema) -> int:
    """About how much memory a row of a run takes: not more than all columns when all have a fixed width."""
    from_file = _DECODED_PER_FILE_BYTE * run.size_bytes // max(run.rows, 1) + 1
    widths = [_FIXED_WIDTH_BYTES.get(field.type.root) for field in schema.fields]
    fixed = sum(width for width in widths if width is not None) + _SYSTEM_WIDTH_BYTES
    if None not in widths:
        return min(from_file, fixed) if run.level == 0 else fixed
    return from_file if run.level == 0 else from_file + fixed


_FIXED_WIDTH_BYTES: Final = {
    "BOOLEAN": 1,
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "FLOAT": 4,
    "DATE": 4,
    "TIME": 4,
    "BIGINT": 8,
    "DOUBLE": 8,
    "TIMESTAMP": 8,
    "TIMESTAMP_LTZ": 8,
}
