"""Looks up rows of one snapshot by key, merged as a scan merges them, for every table and layout.

In: keys as users give them (lookup_keys). Out: one row per key, in their order; a key that is null, missing or
deleted gives nulls. Keys are sorted once and split by bucket (requested_keys); in each bucket every sorted run is
searched, level-0 files included (bucket_rows), and the rows of all buckets are merged at once (numbered_merge).
So time grows with the keys and the files that may hold them, not with the table. Memory: the result, and in each run
the rows of a piece of the keys.

A piece is a range of key numbers, the same in all buckets, so that it can be cut within one. With a budget of 4 rows:

    bucket     A: keys 0 1 2     B: keys 3 4 5 6 7 8 9
    pieces     A 0-2 and B 3  |  B 4-7  |  B 8-9

The number of keys in a piece is learned from the rows so far (`RowBudget`); before the first row it is estimated from
the files' bytes per row. A view keeps at most `_MAX_OPEN` files and `_MAX_BUCKETS` buckets open, and closes the least
recently used first; within a call all files that it needs may be open at once.

Raises InvalidError for wrong keys, NotFoundError for a missing column, what scans raise for tables that this
version cannot read, and what reading data files raises.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.errors import InvalidError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.projection import without_columns
from widetable.format.row_batch import in_schema_order
from widetable.format.row_budget import RowBudget, memory_bytes
from widetable.kernels.gather import is_plain_fixed_width
from widetable.kernels.hidden_nulls import has_required_parts
from widetable.lsm.file_rows import Found
from widetable.merge.numbered_merge import NumberedRows, merge_numbered
from widetable.messages.counted import counted
from widetable.operations.handle.chosen_state import ChosenState
from widetable.operations.handle.lookup_caches import caches_of
from widetable.operations.queries.bucket_rows import BucketRows
from widetable.operations.queries.lookup_keys import key_rows, prefix_rows
from widetable.operations.queries.requested_keys import Numbers, RequestedKeys, request_keys
from widetable.operations.queries.row_gather import taken_column, taken_rows
from widetable.read.expired import checked_identity, files_of
from widetable.read.scan_plan import placed
from widetable.runtime.worker_thread import in_threads
from widetable.schema.table_schema import TableSchema

_THREADS: Final = 2
# For fewer keys in a piece, a thread costs more than it saves.
_KEYS_FOR_THREADS: Final = 4096
# Files that stay open between calls, most of them caches, each with a map and perhaps two file descriptors.
_MAX_OPEN: Final = 256
# Buckets whose list of files is kept between calls.
_MAX_BUCKETS: Final = 1 << 14
# The rows of a piece of keys take about this much memory in each run.
_PIECE_BYTES: Final = 64 << 20
# An estimate before the first rows: in memory they are at most this much wider than in files.
_EXPANSION: Final = 8
# The number of rows that begin with a key is unknown before the first rows.
_FIRST_PREFIXES: Final = 256
# Nor is it known how well texts were compressed: this many are read first, of all runs together.
_FIRST_TEXTS: Final = 2048
# Gathering this many rows costs less than a call per column.
_FEW: Final = 4096
# Learning how wide the rows of so few keys are, all of them in one piece, costs more than it is worth.
_FEW_TO_LEARN_FROM: Final = 1024
KEY_NUMBER: Final = pa.field("_key_number", pa.int64(), nullable=False)


class _Work(NamedTuple):
    """The keys of one bucket in a piece: those with numbers from first up to, but not including, end."""

    bucket: BucketRows
    first: int
    end: int


class Matches(NamedTuple):
    """The rows of keys that may each have many rows: key n has counts[n] rows from firsts[n] on, in key order.

    rows     (7, 1) (7, 2) (9, 1)
    keys     9  7  null  9  8
    firsts   2  0     3  2  2          int64[n]; meaningless where the count is 0
    counts   1  2     0  1  0          int64[n]
    """

    rows: pa.Table
    firsts: Numbers
    counts: Numbers


class LookupView:
    """Lookups in one snapshot; files stay open between calls until `close`. It is not thread-safe.

    columns: the wanted ones, in their order; None: all. arrow_schema: that of the result of `lookup`. `take_over`
    carries open files to the view of another snapshot. A view holds no lease: a caller that keeps it between calls
    must keep its snapshot from expiry. Nothing of the table is read until the first call.
    """

    def __init__(self, chosen: ChosenState, columns: Sequence[str] | None) -> None:
        accept(chosen.state.schema, Use.READ)
        self.chosen: Final = chosen
        self.schema: Final[TableSchema] = chosen.state.schema
        self._places = chosen.places()
        self._columns = self.schema.chosen(columns)
        # The merge has columns in the order of the table, the result has them in the requested order.
        self._merged = in_schema_order(self.schema, self._columns)
        fields = self.schema.arrow_schema(self._columns)
        self.arrow_schema: Final = pa.schema([field.with_nullable(True) for field in fields])
        self._hides_nulls = any(has_required_parts(field.type) for field in fields)
        self._has_texts = not all(is_plain_fixed_width(field.type) for field in fields)
        self._required = [number for number, field in enumerate(fields) if not field.nullable]
        self._caches = caches_of(chosen.state)
        # None: the bucket has no files. The least recently used bucket comes first.
        self._buckets: OrderedDict[BucketId, BucketRows | None] = OrderedDict()
        # The number of open files in all buckets. During a call the files of its buckets are not counted.
        self._open = 0
        # Learned from call to call, so that only the first call has to guess how wide rows are.
        self._budget = RowBudget(_PIECE_BYTES)

    def lookup(self, keys: Any) -> pa.Table:
        """Return one row per key, in their order, with all columns nullable."""
        return self.rows_of(key_rows(keys, self.schema))

    def rows_of(self, key_batch: pa.RecordBatch) -> pa.Table:
        """Return one row per key, for key rows (lookup_keys) of this schema."""
        requested = self._requested(key_batch)
        row_of = np.full(
            requested.keys.num_rows + 1, -1, np.int64
        )  # the last one for keys of no row
        batches, count = [], 0
        for numbers, rows in self._numbered_rows(requested, ()):
            row_of[numbers] = np.arange(count, count + len(numbers))
            count += len(numbers)
            batches.append(rows)
        return self._table(row_of[requested.places], batches)

    def lookup_prefix(self, keys: Any, limit_per_key: int | None) -> pa.Table:
        """Return all rows whose key begins with a given key; the first column `_key_number` is its number."""
        matches = self.matches(keys, limit_per_key)
        counts = matches.counts
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        # firsts 2 0, counts 1 2: rows 2, then 0 1. Output row r of key n is row firsts[n] + r - (output rows before n).
        places = np.arange(total) + np.repeat(matches.firsts - ends + counts, counts)
        key_numbers = pa.array(np.repeat(np.arange(len(counts)), counts))
        rows = self._table(places, matches.rows.to_batches())
        return rows.add_column(0, KEY_NUMBER, key_numbers)

    def matches(self, keys: Any, limit_per_key: int | None = None) -> Matches:
        """Return the rows whose keys begin with given keys; equal keys share their rows."""
        schema = self.schema
        key_batch = prefix_rows(keys, schema)
        requested = self._requested(key_batch)
        below = [name for name in schema.trimmed_primary_key if name not in key_batch.schema.names]
        numbers = [np.empty(0, np.int64)]
        batches = []
        for part in self._numbered_rows(requested, below):
            numbers.append(part.numbers)
            batches.append(part.rows)
            if limit_per_key is not None:
                _check_limit(part.numbers, limit_per_key, requested)
        # n + 1 entries, the last one empty: the place -1 of a key without a row is the last one.
        firsts = np.searchsorted(np.concatenate(numbers), np.arange(requested.keys.num_rows + 1))
        counts = np.append(np.diff(firsts), 0)
        return Matches(self._rows(batches), firsts[requested.places], counts[requested.places])

    def take_over(self, old: LookupView) -> None:
        """Take over the open files of another snapshot's view, as far as they fit; the rest is closed.

        Files stay open that are live in both snapshots. They fit only with the same schema and columns, which decide
        what open files read. Buckets without files are forgotten, because they may have some by now. It may raise
        what reading manifests raises; the old view then keeps the files that were not taken over.
        """
        fits = (old.schema.id, old._columns) == (self.schema.id, self._columns)
        buckets = [bucket for bucket, rows in old._buckets.items() if rows is not None]
        if fits and buckets:
            self._budget = old._budget
            live = self._live(buckets)
            for bucket in buckets:
                rows = old._buckets[bucket]
                if rows is not None and bucket in live:
                    rows.move(live[bucket])
                    self._buckets[bucket] = rows
                    del old._buckets[bucket]
                    self._open += rows.open_files
        old.close()

    def with_nothing_open(self) -> LookupView:
        """Return the same view for a forked child, which must not touch the open files of its parent."""
        return LookupView(self.chosen, self._columns)

    def close(self) -> None:
        """Close all files. It may be called more than once."""
        for rows in self._buckets.values():
            if rows is not None:
                rows.close()
        self._buckets.clear()
        self._open = 0

    def _requested(self, key_batch: pa.RecordBatch) -> RequestedKeys:
        return request_keys(key_batch, self.schema, self._places)

    def _numbered_rows(
        self, requested: RequestedKeys, below: Sequence[str]
    ) -> Iterator[NumberedRows]:
        """Yield the merged rows, by the numbers of their keys, piece by piece. below: key columns that are not part
        of the requested keys.

        Numbers ascend from piece to piece, and all rows of a number come in one piece. If the caller abandons the
        generator, its files are counted when it is garbage-collected.
        """
        snapshot, schema = self.chosen.snapshot, self.schema
        if snapshot is None or not requested.buckets:
            return
        with files_of(self.chosen.state, snapshot.id):
            all_work = self._work(requested)
            used = [work.bucket for work in all_work]
            self._open -= sum(bucket.open_files for bucket in used)
            budget = RowBudget(_PIECE_BYTES, _FIRST_PREFIXES) if below else self._budget
            self._budget.expect(self._expected_row_bytes(used))
            try:
                for part in _pieces(all_work, budget):
                    runs, full_runs = self._in_runs(requested.keys, part)
                    keys = sum(work.end - work.first for work in part)
                    # Rows of prefixes are counted by key, because the number of rows of a prefix is unknown.
                    if keys > _FEW_TO_LEARN_FROM or keys < requested.keys.num_rows:
                        _learn(budget, [*chain.from_iterable(runs)], keys, by_key=bool(below))
                    engine = self.chosen.state.engine
                    yield from merge_numbered(runs, schema, engine, self._merged, below, full_runs)
            finally:
                for bucket in used:
                    bucket.end_call()
                self._open += sum(bucket.open_files for bucket in used)
                self._close_some()

    def _expected_row_bytes(self, buckets: Sequence[BucketRows]) -> float:
        """Estimate the size of a row before any was read."""
        in_files = _EXPANSION * max((bucket.row_bytes for bucket in buckets), default=0.0)
        runs = max((len(bucket.runs) for bucket in buckets), default=0)
        texts = _PIECE_BYTES * runs / _FIRST_TEXTS if self._has_texts else 0.0
        return max(in_files, texts)

    def _in_runs(
        self, keys: pa.RecordBatch, part: Sequence[_Work]
    ) -> tuple[list[list[NumberedRows]], int]:
        """Return the rows of all buckets by the age of their runs, the oldest first, and the number of runs at levels
        >= 1.

            A   level 5, level 2 | fresh a        ─►   (A 5, B 5)  (A 2)  |  (A fresh a, B fresh b)  (B fresh c)
            B   level 5          | fresh b, c

        Runs of different buckets may be combined, as they share no key number; but a level must not be combined with
        level 0: runs before the bar have full rows, those after it do not (0008). Threads share the buckets if there
        are several, else the files of the one.
        """
        key_count = sum(work.end - work.first for work in part)
        threads = _THREADS if key_count >= _KEYS_FOR_THREADS else 1
        in_bucket = threads if len(part) == 1 else 1

        def find(work: _Work) -> list[list[Found]]:
            count = work.end - work.first
            piece = keys.slice(work.first, count)
            return [run.find(piece, count, in_bucket) for run in work.bucket.runs]

        of_buckets = in_threads(find, part, threads, "lookup")
        levels = [
            pieces[: work.bucket.levels] for work, pieces in zip(part, of_buckets, strict=True)
        ]
        fresh = [
            pieces[work.bucket.levels :] for work, pieces in zip(part, of_buckets, strict=True)
        ]
        of_runs = [*zip_longest(*levels, fillvalue=[]), *zip_longest(*fresh, fillvalue=[])]
        runs = [
            [
                NumberedRows(work.first + hits, rows)
                for work, pieces in zip(part, of_run, strict=True)
                for hits, rows in pieces
            ]
            for of_run in of_runs
        ]
        return runs, max(map(len, levels), default=0)

    def _work(self, requested: RequestedKeys) -> list[_Work]:
        """Return the keys of each bucket that has files.

        Manifests are read once for all buckets that are not cached yet; buckets without files are remembered too.
        """
        unknown = [bucket for bucket in requested.buckets if bucket not in self._buckets]
        if unknown:
            live = self._live(unknown)
            for bucket in unknown:
                self._buckets[bucket] = self._rows_of(bucket, live.get(bucket, ()))
        works = []
        for bucket, first, end in zip(
            requested.buckets,
            requested.starts[:-1].tolist(),
            requested.starts[1:].tolist(),
            strict=True,
        ):
            self._buckets.move_to_end(bucket)
            rows = self._buckets[bucket]
            if rows is not None:
                works.append(_Work(rows, first, end))
        return works

    def _rows_of(self, bucket: BucketId, files: Sequence[DataFileMeta]) -> BucketRows | None:
        """Return the rows of a bucket, or None for one without files. Nothing is opened yet."""
        if not files:
            return None
        rows = BucketRows(self.chosen.state, bucket, self._columns, self._caches)
        rows.move(files)
        return rows

    def _live(self, buckets: Sequence[BucketId]) -> dict[BucketId, list[DataFileMeta]]:
        """Return the live files of those buckets that have any; as of a barrier, those of its view."""
        partitions = frozenset(bucket.partition for bucket in buckets)
        numbers = frozenset(bucket.number for bucket in buckets)
        chosen = self.chosen
        with checked_identity(chosen.state):
            entries = chosen.live_files.live_entries(chosen.snapshot, partitions, numbers)
        if chosen.view is not None:
            entries = chosen.view.files(entries)
        return {
            bucket: [entry.file for entry in members] for bucket, members in placed(entries).items()
        }

    def _close_some(self) -> None:
        """Close the least recently used files while too many are open; they are opened again when keys need them."""
        for rows in self._buckets.values():
            if self._open <= _MAX_OPEN:
                break
            if rows is not None:
                self._open -= rows.open_files
                rows.close()
        while len(self._buckets) > _MAX_BUCKETS:
            _, rows = self._buckets.popitem(last=False)
            if rows is not None:
                self._open -= rows.open_files
                rows.close()

    def _rows(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """Return all rows in the order of the batches."""
        schema = self.arrow_schema
        if not schema.names:
            return pa.Table.from_batches([without_columns(sum(b.num_rows for b in batches))])
        columns = [pa.chunked_array([b.column(f.name) for b in batches], f.type) for f in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def _table(self, places: Numbers, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """Return the rows in the order of the keys.

        places: row numbers in the concatenated batches, -1 for a row of nulls.

        A few keys have a fast path: one `take` for all columns. It is not used where a type has parts that are NOT
        NULL (`_hides_nulls`): below a null row Arrow's `take` leaves nulls in them (`hidden_nulls`), ours does not.
        """
        schema = self.arrow_schema
        if not schema.names:
            return pa.Table.from_batches([without_columns(len(places))])
        if len(batches) == 1 and len(places) <= _FEW and not self._hides_nulls:
            rows = batches[0].select(schema.names)
            if not _are_all(places, rows.num_rows):
                rows = taken_rows(rows, places)
            return self._nullable(rows)
        columns = [taken_column(batches, field, places) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def _nullable(self, rows: pa.RecordBatch) -> pa.Table:
        """Return the rows with the schema of the result.

        A table of twenty columns costs ten times as much to make from arrays as from a batch, so only those columns
        are replaced that the rows have as NOT NULL.
        """
        schema = self.arrow_schema
        table = pa.Table.from_batches([rows])
        for number in self._required:
            table = table.set_column(number, schema.field(number), table.column(number))
        if not table.schema.equals(schema, check_metadata=True):
            return pa.Table.from_arrays(rows.columns, schema=schema)
        return table


def _pieces(all_work: Sequence[_Work], budget: RowBudget) -> Iterator[list[_Work]]:
    """Yield the work in pieces whose rows fit into memory together."""
    first, end = 0, max((work.end for work in all_work), default=0)
    while first < end:
        stop = first + budget.rows
        parts = [
            _Work(work.bucket, max(work.first, first), min(work.end, stop)) for work in all_work
        ]
        yield [part for part in parts if part.first < part.end]
        first = stop


def _learn(budget: RowBudget, runs: Sequence[NumberedRows], keys: int, *, by_key: bool) -> None:
    """Learn the width of rows: those of single runs, as a run may lack some keys, and those of all runs together.

    by_key: the rows of a run are counted by key, too.
    """
    for each in runs:
        budget.saw(each.rows, keys if by_key else each.rows.num_rows)
    budget.saw_bytes(sum(memory_bytes(each.rows) for each in runs), keys)


def _check_limit(numbers: Numbers, limit: int, requested: RequestedKeys) -> None:
    counts = np.bincount(numbers) if len(numbers) else numbers
    if (counts > limit).any():
        number = int(counts.argmax())
        key = requested.keys.slice(number, 1).to_pylist()[0]
        raise InvalidError(
            "limit_per_key",
            found=f"{counted(counts[number], 'row')} of the key {key}",
            expected=f"at most {limit}",
            action="Raise the limit, or leave the key out.",
        )


def _are_all(places: Numbers, rows: int) -> bool:
    """Whether the places are those of all rows, in their order."""
    return len(places) == rows and bool((places == np.arange(rows)).all())
