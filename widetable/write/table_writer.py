"""A writer of a table: user data in, level-0 files and commit messages out. It never commits.

    data -> record batches (row_source) -> row batches (write_batch) -> buckets (bucket_split) -> buffers (write_buffer)
            -> files (rolling_writer)
            records, unmerged -> changelog files (input_changelog), with `changelog-producer=input`

Rows may carry different columns (`column_sets`): dicts with different names, and rows that list their columns
(`named_columns`). Where a merge takes values of several records, such rows are cut by their columns between the normal
form and the buckets, and each set of columns has files of its own. Where a record replaces the row as a whole, a column
that it does not carry is null; these rows, and those of tables whose files have all columns, stay together.

Memory stays within `write-buffer-size`, however large the data or the number of buckets. Level-0 files hold the
written, key and NOT NULL columns, or all with `widetable.level0-columns=all`. Raises InvalidError for data that the
schema does not allow, StorageError when a disk refuses; after any error `abort` leaves nothing behind.

The files on disk if a writer's process dies in or after a step:

    write    spilled runs in a temporary directory, possibly changelog files
    finish   data files, each complete, named by no snapshot
    commit   the snapshot names them; before that no reader reads them, after it they must stay

Data files that were never committed are orphans; the cleaning of orphans removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, compress
from operator import not_
from typing import Any, Final

import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.hash_index import write_hash_index
from widetable.format.row_budget import MIN_BYTES, check_row, memory_bytes, pieces, row_bytes
from widetable.kernels.array_types import Positions
from widetable.runtime.worker_thread import in_threads
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.storage.memory_pool import prefer_system_pool
from widetable.storage.paths import postponed_prefix
from widetable.write.append.row_writer import check_open
from widetable.write.bucket_split import rows_by_bucket, split_by_bucket
from widetable.write.column_sets import ColumnCut, RowSets
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.held_rows import MOST_BATCHES, HeldRows, has_values_of
from widetable.write.input_changelog import InputChangelog
from widetable.write.named_columns import NamedColumns
from widetable.write.owned_columns import WriteColumns
from widetable.write.places import Places
from widetable.write.rolling_writer import RollingWriter
from widetable.write.row_columns import check_row_columns
from widetable.write.row_source import RowSource, row_source
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_state import TableState
from widetable.write.write_batch import BatchNormalizer
from widetable.write.write_buffer import FEW_BYTES, BufferedRun, WriteBuffer

# A user's batch is processed in slices of this fraction of the budget, up to a maximum size; smaller slices would spill
# few rows at a time.
_SLICES_PER_BUDGET: Final = 16
_MAX_SLICE_BYTES: Final = 16 << 20
# The fraction of the budget for the records of an `input` changelog, which are buffered, and sorted in a copy.
_CHANGELOG_PART_OF_BUDGET: Final = 6


class TableWriter:
    """Writes rows of one set of columns. Call `write` any number of times, then `finish` once; call `abort` instead, or
    after an error. As a context manager it aborts when the block raises. Not thread-safe.

    chosen: the columns of the rows, as `owned_columns` has checked them. places: chooses the buckets of rows if the
    number of buckets does not determine them. named: takes the column from the data that lists the columns of each row;
    None if the data has no such column. threads: so many write the buckets of many rows in `finish`.

    After `finish` the messages own the files. But `abort`, or a `with` block that raises after
    `finish`, deletes them: commit outside of the block.
    """

    def __init__(
        self,
        state: TableState,
        chosen: WriteColumns,
        allocator: SequenceAllocator,
        places: Places | None = None,
        named: NamedColumns | None = None,
        threads: int = 1,
    ) -> None:
        prefer_system_pool()
        self._state = state
        self._places = places
        self._named = named
        schema = state.schema
        self._normalizer = BatchNormalizer(schema, chosen, allocator)
        budget_bytes = state.options.get(opt.WRITE_BUFFER_SIZE)
        target_bytes = min(_MAX_SLICE_BYTES, budget_bytes // _SLICES_PER_BUDGET)
        self._slice_bytes = max(MIN_BYTES, target_bytes)
        all_columns = state.options.get(opt.LEVEL0_COLUMNS) == "all"
        cuts = state.engine.mixes_records and not all_columns
        self._cut = ColumnCut(chosen.names) if cuts else None
        self._columns = chosen.names
        self._budget_bytes = budget_bytes
        self._threads = threads
        self._held: HeldRows | None = None
        self._buffer = WriteBuffer(
            schema, state.engine, chosen.names, budget_bytes, cuts=cuts, threads=threads
        )
        self._file_columns = schema.names if all_columns else chosen.names
        values = [name for name in chosen.names if name not in schema.primary_keys]
        self._value_ids = frozenset(schema.field(name).id for name in values)
        self._changelog: InputChangelog | None = None
        if state.options.get(opt.CHANGELOG_PRODUCER) == "input":
            share = max(1, budget_bytes // _CHANGELOG_PART_OF_BUDGET)
            self._changelog = InputChangelog(state, self._file_columns, share)
        self._written: dict[BucketId, list[DataFileMeta]] = {}
        self._check_place = cache(state.bucket_dir)
        self._file_prefix = postponed_prefix() if schema.postpones_buckets else "data"
        self._is_open = True

    @property
    def schema(self) -> TableSchema:
        """The schema that defines the writer's columns."""
        return self._state.schema

    def write(self, data: Any) -> None:
        """Add rows, in any form that `row_source` accepts, with the writer's columns.

        An error aborts the writer before it is raised: half a batch is never committed.

        A batch is checked as a whole before any of its rows is added, then processed in slices. Rows
        of equal key in later calls are newer. Only spilled runs and changelog files are written here.
        """
        check_open(is_open=self._is_open)
        try:
            self._write_rows(row_source(data, self._state.schema))
        except BaseException:
            self.abort()
            raise

    def write_source(self, source: RowSource) -> list[CommitMessage]:
        """Write all rows of a source, and finish. Rows that the caller holds are sorted where they are (`held_rows`).
        The caller aborts the writer after an error.
        """
        self._held = self._hold(source.held) if self._may_hold(source) else None
        if self._held is None:
            self._write_rows(source)
        return self.finish()

    def _write_rows(self, source: RowSource) -> None:
        if source.sets is not None and self._named is None:
            check_row_columns(self._state.schema, source.sets, self._normalizer.expected)
        first = 0
        for batch in source.batches:
            rows, sets = self._rows(batch, source.sets, first)
            first += batch.num_rows
            self._normalizer.check_batch(rows)
            start = 0
            for piece in pieces(rows, self._slice_bytes, rows.num_rows):
                self._add(piece, sets and sets.slice(start, piece.num_rows))
                start += piece.num_rows

    def _may_hold(self, source: RowSource) -> bool:
        """Return whether a source has so many rows in so few batches that it is worth its while."""
        is_plain = source.sets is None and self._named is None and self._changelog is None
        is_plain = is_plain and self._normalizer.inserts_only
        size = sum(map(memory_bytes, source.held)) if len(source.held) <= MOST_BATCHES else 0
        return is_plain and size > FEW_BYTES

    def _hold(self, batches: Sequence[pa.RecordBatch]) -> HeldRows | None:
        """Number the rows of the caller's batches, and sort them; None if they cannot be held (`held_rows`).

        The rows of buckets that cannot be sorted are in the buffer then.
        """
        for batch in batches:
            self._normalizer.check_batch(batch)
        in_place = HeldRows(
            self._state.schema,
            self._state.engine,
            self._columns,
            batches,
            self._slice_bytes // self._threads,
        )
        for batch in batches:
            for piece in pieces(batch, self._slice_bytes, batch.num_rows):
                check_row(row_bytes(piece), self._budget_bytes, "a row that is written")
                rows = self._normalizer.row_batch(piece)
                if not has_values_of(rows, piece):
                    return None
                in_place.add(rows)
        # `Places` numbers new keys in their order.
        in_place.split(self._places_in, 1 if self._places else self._threads)
        threads = in_place.sorting_threads(self._budget_bytes, self._threads)
        if not threads:
            return None
        buckets = in_place.buckets()
        are_sorted = in_threads(in_place.sort, buckets, threads, "sort")
        for bucket in compress(buckets, map(not_, are_sorted)):
            for rows in in_place.arrived(bucket):
                self._buffer.add(bucket, rows)
        return in_place

    def _rows(
        self, batch: pa.RecordBatch, sets: RowSets | None, first: int
    ) -> tuple[pa.RecordBatch, RowSets | None]:
        """Return a batch with the writer's columns, and the columns of each row, if rows carry different ones. sets:
        those of the source, in which the batch begins at row `first`.
        """
        if self._named is not None:
            return self._named.rows(batch)
        if sets is None:
            return batch, None
        return self._normalizer.with_all_columns(batch), sets.slice(first, batch.num_rows)

    def finish(self) -> list[CommitMessage]:
        """Write the files of all rows, close the writer, and return one message per bucket with rows.

        An error aborts the writer before it is raised.
        """
        check_open(is_open=self._is_open)
        try:
            in_place = () if self._held is None else self._held.buckets()
            threads = self._threads if in_place else self._buffer.threads
            buckets = sorted([*in_place, *self._buffer.buckets()])
            # Messages come in this order, whichever thread is first.
            self._written.update((bucket, []) for bucket in buckets)
            in_threads(self._write_bucket, buckets, threads, "write")
            changelog = {} if self._changelog is None else self._changelog.finish()
        except BaseException:
            self.abort()
            raise
        self._is_open = False
        self._held = None
        self._buffer.release()
        return self._messages(changelog)

    def _write_bucket(self, bucket: BucketId) -> None:
        """Write the files of a bucket. Those that are complete are noted at once, for `abort`."""
        for run in self._runs(bucket):
            writer = RollingWriter(
                self._state,
                bucket,
                run.columns if self._cut else self._file_columns,
                level=0,
                file_source=FILE_SOURCE_APPEND,
                prefix=self._file_prefix,
            )
            self._written[bucket] += writer.write_all(run.rows)

    def _runs(self, bucket: BucketId) -> Iterator[BufferedRun]:
        if self._held is None or bucket not in self._held:
            yield from self._buffer.take(bucket)
            return
        for rows in self._held.take(bucket):
            yield BufferedRun(self._columns, rows)

    def _messages(
        self, changelog: Mapping[BucketId, tuple[DataFileMeta, ...]]
    ) -> list[CommitMessage]:
        """Return the messages. Buckets without rows whose index is missing have one as well."""
        files = self._written
        hashes = {} if self._places is None else dict(self._places.new_hashes())
        # Hashes of buckets without rows are added only to a commit with rows: a missing index
        # alone is no reason to commit.
        buckets: list[BucketId] = list(dict.fromkeys([*files, *(hashes if files else {})]))
        return [
            CommitMessage(
                *bucket,
                self._places.total_buckets(bucket.partition)
                if self._places
                else self._state.schema.num_buckets,
                new_files=tuple(files.get(bucket, ())),
                changelog_files=changelog.get(bucket, ()),
                new_hashes=write_hash_index(hashes[bucket]) if bucket in hashes else b"",
                columns=self._value_ids,
                schema_digest=self._state.schema.digest,
            )
            for bucket in buckets
        ]

    def abort(self) -> None:
        """Remove temporary files, and the files of `finish`. Never call it after a commit of them was tried."""
        self._is_open = False
        self._held = None
        self._buffer.release()
        if self._changelog is not None:
            self._changelog.abort()
        for bucket, files in self._written.items():
            discard_files(self._state, bucket, files)
        self._written.clear()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or self._is_open:
            self.abort()

    def _add(self, piece: pa.RecordBatch, sets: RowSets | None) -> None:
        """Add checked rows: unmerged to the changelog, in normal form to the table. sets: the columns of each row."""
        records, sets = self._normalizer.records_of_sets(piece, sets)
        if self._changelog is not None:
            for bucket, part in self._split(records):
                self._changelog.add(bucket, part)
        rows = self._normalizer.normal_form(records)
        parts = [rows] if self._cut is None else self._cut.parts(rows, sets)
        self._buffer.add_all(chain.from_iterable(map(self._split, parts)))

    def _split(self, rows: pa.RecordBatch) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        """Yield the rows by bucket. Raises for a partition that cannot have a directory, before it has a file.
        `_check_place` is called only for its error, once per bucket.
        """
        for bucket, part in split_by_bucket(rows, self._state.schema, self._places):
            self._check_place(bucket)
            yield bucket, part

    def _places_in(self, rows: pa.RecordBatch) -> Iterator[tuple[BucketId, Positions]]:
        """Yield the numbers of the rows by bucket. Raises as `_split` does."""
        for bucket, places in rows_by_bucket(rows, self._state.schema, self._places):
            self._check_place(bucket)
            yield bucket, places
