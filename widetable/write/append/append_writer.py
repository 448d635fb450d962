"""A writer of an append table: user data in, data files and commit messages out. It never commits.

    data -> record batches (row_source) -> checked rows (write_batch) -> buckets (bucket_split) -> files (append_buffer)

Rows stay as they are: none replaces another, so each has the kind +I, and a column that a row does not carry is null.
Rows of one bucket keep the order in which they are written. Rows without buckets have no order, so threads may share
the rows of one call. `file_columns` says which columns files have.

The calls, the memory and what a killed process leaves are those of `TableWriter`. Raises InvalidError for data that the
schema does not allow, StorageError when a disk refuses; after any error `abort` leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.format.row_budget import MIN_BYTES, memory_bytes, pieces
from widetable.runtime.worker_thread import in_threads
from widetable.schema import options as opt
from widetable.schema.row_kind import INSERT, TEXTS
from widetable.schema.table_schema import VALUE_KIND, TableSchema
from widetable.storage.memory_pool import prefer_system_pool
from widetable.write.append.append_buffer import AppendBuffer
from widetable.write.append.file_columns import file_columns
from widetable.write.append.row_writer import check_open
from widetable.write.bucket_split import split_by_bucket
from widetable.write.column_sets import RowSets
from widetable.write.commit_message import CommitMessage
from widetable.write.named_columns import NamedColumns
from widetable.write.owned_columns import WriteColumns
from widetable.write.row_columns import check_row_columns
from widetable.write.row_source import RowSource, row_source
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_state import TableState
from widetable.write.write_batch import BatchNormalizer

# Slices of a batch that are checked and split at once: larger ones take more memory, smaller ones more time. Rows of
# many partitions are split into as many parts each time, so larger slices take a third of the time there.
_MAX_SLICE_BYTES: Final = 16 << 20
_SLICES_PER_BUDGET: Final = 16
_MAX_SPLIT_BYTES: Final = 64 << 20
_SPLITS_PER_BUDGET: Final = 4
# A thread begins no file for less.
_BYTES_PER_THREAD: Final = 32 << 20


class AppendWriter:
    """Writes rows of one set of columns. Call `write` any number of times, then `finish` once; call `abort` instead, or
    after an error. As a context manager it aborts when the block raises. Not thread-safe.

    The arguments are those of `TableWriter`. After `finish` the messages own the files: commit outside of the block.
    """

    def __init__(
        self,
        state: TableState,
        chosen: WriteColumns,
        allocator: SequenceAllocator,
        named: NamedColumns | None = None,
        threads: int = 1,
    ) -> None:
        prefer_system_pool()
        self._state = state
        self._chosen = chosen
        self._allocator = allocator
        self._named = named
        self._threads = threads
        self._normalizer = BatchNormalizer(state.schema, chosen, allocator)
        budget_bytes = state.options.get(opt.WRITE_BUFFER_SIZE)
        self._slice_bytes = max(MIN_BYTES, _slice_bytes(state.schema, budget_bytes))
        self._buffer = AppendBuffer(state, file_columns(state, chosen.names), budget_bytes)
        self._check_place = cache(state.bucket_dir)
        self._helpers: list[AppendWriter] = []
        self._is_open = True

    @property
    def schema(self) -> TableSchema:
        """The schema that defines the writer's columns."""
        return self._state.schema

    def write(self, data: Any) -> None:
        """Add rows, in any form that `row_source` accepts, with the writer's columns.

        An error aborts the writer before it is raised: half a batch is never committed.
        """
        check_open(is_open=self._is_open)
        try:
            self._write_rows(row_source(data, self._state.schema))
        except BaseException:
            self.abort()
            raise

    def write_source(self, source: RowSource) -> list[CommitMessage]:
        """Write all rows of a source, and finish. The caller aborts the writer after an error."""
        shares = self._shares(source)
        if len(shares) < 2:
            self._write_rows(source)
            return self.finish()
        self._helpers = [self._helper(share) for share in shares]
        pairs = list(zip(self._helpers, shares, strict=True))
        written = in_threads(_write_share, pairs, self._threads, "write")
        self._is_open = False
        # A bucket may have several messages, each with its own files.
        return [message for part in written for message in part]

    def finish(self) -> list[CommitMessage]:
        """Write the files of all rows, close the writer, and return one message per bucket with rows.

        An error aborts the writer before it is raised.
        """
        check_open(is_open=self._is_open)
        try:
            files = self._buffer.finish(self._threads)
        except BaseException:
            self.abort()
            raise
        self._is_open = False
        schema = self._state.schema
        return [
            CommitMessage(
                *bucket,
                schema.num_buckets,
                new_files=new_files,
                columns=frozenset(schema.field(name).id for name in self._chosen.names),
                schema_digest=schema.digest,
            )
            for bucket, new_files in files.items()
        ]

    def abort(self) -> None:
        """Remove temporary files, and the files of `finish`. Never call it after a commit of them was tried."""
        self._is_open = False
        for helper in self._helpers:
            helper.abort()
        self._buffer.abort()

    def __enter__(self) -> AppendWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or self._is_open:
            self.abort()

    def _write_rows(self, source: RowSource) -> None:
        if source.sets is not None and self._named is None:
            check_row_columns(self._state.schema, source.sets, self._normalizer.expected)
        for batch in source.batches:
            rows = self._rows(batch, source.sets)
            self._normalizer.check_batch(rows)
            for piece in pieces(rows, self._slice_bytes, rows.num_rows):
                records = self._normalizer.records(piece)
                self._check_kinds(records)
                for bucket, part in split_by_bucket(records, self._state.schema):
                    self._check_place(bucket)
                    self._buffer.add(bucket, part)

    def _rows(self, batch: pa.RecordBatch, sets: RowSets | None) -> pa.RecordBatch:
        """Return a batch with the writer's columns; what a row does not carry is null."""
        if self._named is not None:
            return self._named.rows(batch)[0]
        return batch if sets is None else self._normalizer.with_all_columns(batch)

    def _check_kinds(self, records: pa.RecordBatch) -> None:
        if self._normalizer.inserts_only:
            return
        kinds = pc.unique(records.column(VALUE_KIND)).to_pylist()
        other = next((kind for kind in kinds if kind != INSERT), None)
        if other is not None:
            raise InvalidError(
                f"column {self._chosen.kind_column!r}",
                found=f"the row kind {TEXTS[other]}, in a table without a primary key",
                expected="+I in all rows: no row of an append table replaces or removes another",
                action="Leave the row kinds out, use Table.delete or Table.update, or a table with a primary key.",
            )

    def _shares(self, source: RowSource) -> list[tuple[pa.RecordBatch, ...]]:
        """Divide the rows that the caller holds among threads; one share if they are few, or must keep their order."""
        is_plain = source.sets is None and self._named is None and self._state.schema.has_free_rows
        size = sum(map(memory_bytes, source.held)) if is_plain else 0
        count = min(self._threads, size // _BYTES_PER_THREAD)
        if count < 2:
            return [source.held]
        rows = sum(batch.num_rows for batch in source.held)
        table = pa.Table.from_batches(source.held)
        bounds = [rows * at // count for at in range(count + 1)]
        return [tuple(table.slice(low, high - low).to_batches()) for low, high in pairwise(bounds)]

    def _helper(self, share: Sequence[pa.RecordBatch]) -> AppendWriter:
        """Return a writer of a share, which takes its numbers from those of this writer."""
        numbers = self._allocator.take(sum(batch.num_rows for batch in share))
        return AppendWriter(self._state, self._chosen, SequenceAllocator(int(numbers[0])))


def _slice_bytes(schema: TableSchema, budget_bytes: int) -> int:
    if schema.partition_keys or not schema.has_free_rows:
        return min(_MAX_SPLIT_BYTES, budget_bytes // _SPLITS_PER_BUDGET)
    return min(_MAX_SLICE_BYTES, budget_bytes // _SLICES_PER_BUDGET)


def _write_share(pair: tuple[AppendWriter, Sequence[pa.RecordBatch]]) -> list[CommitMessage]:
    helper, share = pair
    return helper.write_source(RowSource(None, iter(share)))
