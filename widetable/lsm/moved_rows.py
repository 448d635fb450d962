"""Moves the rows of a partition to files of other buckets. They are not merged: each keeps its kind, number and level.

    level k >= 1    the runs of all old buckets, which share no key    ─► one run of level k in each new bucket
    level 0         every record; those of one key in separate files   ─► files of level 0
    changelog       every record of producer `input`, in its order     ─► changelog files
    postponed       every record, numbered anew in the given order     ─► files of level 0

So the levels have the same meaning in the new buckets: which rows readers of changes have seen, which rows a late
record meets, which rows are full (decision 0035). Rows that a deletion vector deletes are left out. Memory stays within
`write-buffer-size`. Raises the errors of reading and writing data files; new files are removed then.

For each level, files are read one by one, rows are split by new bucket into one buffer, which spills if it is full, and
each bucket's runs become files. The old buckets are not changed: the commit of the messages does that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import (
    FILE_SOURCE_APPEND,
    FILE_SOURCE_COMPACT,
    DataFileMeta,
)
from widetable.format.row_batch import SYSTEM_FIELDS, in_schema_order
from widetable.lsm.compaction import merge_bytes
from widetable.lsm.rows_opener import RowsOpener
from widetable.merge.deduplicate import Deduplicate
from widetable.merge.engine import MergeEngine
from widetable.merge.every_record import EveryRecord
from widetable.merge.sorted_merge import merge_runs
from widetable.schema import options as opt
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.write.bucket_split import split_by_bucket
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.input_changelog import InputChangelog
from widetable.write.places import CountedBuckets
from widetable.write.rolling_writer import RollingWriter
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_state import TableState
from widetable.write.write_buffer import Run, WriteBuffer

_CHANGELOG_PART_OF_BUDGET: Final = 6

# Files, each with its bucket.
Placed: TypeAlias = Iterable[tuple[BucketId, DataFileMeta]]
_Files: TypeAlias = tuple[DataFileMeta, ...]


def moved(
    state: TableState, count: int, files: Placed, changelog: Placed = ()
) -> list[CommitMessage]:
    """Move rows; return one message per new bucket that gets rows. count: new number of buckets of the partition.
    files, changelog: of one partition.
    """
    return _RowMove(state, count).run(list(files), list(changelog))


def placed_at_last(
    state: TableState, count: int, files: Placed, numbers: SequenceAllocator
) -> list[CommitMessage]:
    """Move rows whose bucket was postponed to the buckets of their partition; return one message per bucket.

    files: in the order of their commits, and for each writer in the order in which it wrote them. Their rows get new
    numbers in this order: those that other clients wrote have none. numbers: above all others of the table.
    """
    return _RowMove(state, count, numbers).run(list(files), [])


class _RowMove:
    """One move of rows. numbers: the new numbers of the rows; None: they keep theirs. columns: those of files of level
    0. written: the files to remove after a failure.
    """

    def __init__(
        self, state: TableState, count: int, numbers: SequenceAllocator | None = None
    ) -> None:
        self._state = state
        self._numbers = numbers
        self._places = CountedBuckets(state.schema, lambda _partition: count)
        self._count = count
        self._budget_bytes = state.options.get(opt.WRITE_BUFFER_SIZE)
        self._columns: Sequence[str] = state.schema.names
        self._written: list[tuple[BucketId, _Files]] = []

    def run(
        self,
        files: Sequence[tuple[BucketId, DataFileMeta]],
        changelog: Sequence[tuple[BucketId, DataFileMeta]],
    ) -> list[CommitMessage]:
        new: dict[BucketId, _Files] = {}
        emitted: Mapping[BucketId, _Files] = {}
        try:
            # Level 0 last: changelog files get the columns that its files have.
            for level in sorted({file.level for _, file in files}, reverse=True):
                # Roughly oldest first: sequence numbers decide, the order only between equal ones.
                level_files = [each for each in files if each[1].level == level]
                if self._numbers is None:
                    level_files.sort(key=lambda each: each[1].max_sequence_number)
                for bucket, made in self._level(level, level_files):
                    new[bucket] = (*new.get(bucket, ()), *made)
            if changelog:
                emitted = self._changelog(changelog)
        except BaseException:
            for bucket, made in self._written:
                discard_files(self._state, bucket, made)
            raise
        return [
            CommitMessage(
                *bucket,
                self._count,
                new_files=new.get(bucket, ()),
                changelog_files=emitted.get(bucket, ()),
            )
            for bucket in sorted({*new, *emitted})
        ]

    def _level(
        self, level: int, files: Sequence[tuple[BucketId, DataFileMeta]]
    ) -> Iterator[tuple[BucketId, _Files]]:
        """Yield the new files of one level, bucket by bucket, with the columns that any of its files has."""
        # Above level 0 a key has one row: any engine keeps it, and can merge spilled runs.
        engine: MergeEngine = Deduplicate() if level else EveryRecord()
        names = self._state.schema.names
        buffer = WriteBuffer(self._state.schema, engine, names, self._budget_bytes)
        with contextlib.ExitStack() as stack:
            stack.callback(buffer.release)
            present: set[str] = set()
            for bucket, part in self._parts(files):
                present.update(part.schema.names[len(SYSTEM_FIELDS) :])
                buffer.add(bucket, part)
            columns = in_schema_order(self._state.schema, present) if present else ()
            self._columns = columns
            if level and self._state.has_wide_files:
                columns = names
            for bucket in buffer.buckets():
                runs = [self._run(bucket, run.rows, level, columns) for run in buffer.take(bucket)]
                if level and len(runs) > 1:
                    runs = [self._joined(bucket, runs, level, columns)]
                yield bucket, tuple(file for run in runs for file in run)

    def _parts(
        self, files: Iterable[tuple[BucketId, DataFileMeta]]
    ) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        """Yield the rows of old files, split by new bucket."""
        batch_bytes = merge_bytes(self._state.options)
        for bucket, file in files:
            opener = RowsOpener(self._state, bucket, self._state.schema.names, None)
            for rows in opener.batches(file, batch_bytes):
                yield from split_by_bucket(self._numbered(rows), self._state.schema, self._places)

    def _numbered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._numbers is None:
            return rows
        place = rows.schema.get_field_index(SEQUENCE_NUMBER)
        numbers = pa.array(self._numbers.take(rows.num_rows), pa.int64())
        return rows.set_column(place, rows.schema.field(place), numbers)

    def _run(self, bucket: BucketId, run: Run, level: int, columns: Sequence[str]) -> _Files:
        source = FILE_SOURCE_COMPACT if level else FILE_SOURCE_APPEND
        writer = RollingWriter(self._state, bucket, columns, level=level, file_source=source)
        made = writer.write_all(run)
        self._written.append((bucket, made))
        return made

    def _joined(
        self, bucket: BucketId, runs: Sequence[_Files], level: int, columns: Sequence[str]
    ) -> _Files:
        """Merge the runs of a buffer that was spilled into the one run of the level."""
        schema = self._state.schema
        batch_bytes = merge_bytes(self._state.options)
        opener = RowsOpener(self._state, bucket, schema.names, None)

        def rows_of(run: _Files) -> Run:
            for file in run:
                yield from opener.batches(file, batch_bytes // len(runs))

        merged = merge_runs(
            [rows_of(run) for run in runs],
            schema,
            Deduplicate(),
            columns,
            keep_deletes=True,
            batch_bytes=batch_bytes,
        )
        joined = self._run(bucket, merged, level, columns)
        for run in runs:
            self._written.remove((bucket, run))
            discard_files(self._state, bucket, run)
        return joined

    def _changelog(
        self, files: Sequence[tuple[BucketId, DataFileMeta]]
    ) -> Mapping[BucketId, _Files]:
        share = max(1, self._budget_bytes // _CHANGELOG_PART_OF_BUDGET)
        records = InputChangelog(self._state, self._columns, share)
        try:
            for bucket, part in self._parts(files):
                records.add(bucket, part)
            made = records.finish()
        except BaseException:
            records.abort()
            raise
        self._written += made.items()
        return made
