"""Rows of one snapshot by key: point reads, right for every table and layout.

In: keys as users give them (lookup_keys), the columns wanted, a snapshot. Out: one row per key, in the order of the
keys; a key that is null, not there or deleted gives nulls. Keys are split by bucket; in each bucket the rows of its
keys are found in every sorted run, level-0 files included, and merged as a scan merges them. So time grows with the
keys and the files that may hold them, not with the table.

Raises InvalidError for wrong keys, NotFoundError for a column that is not there, what scans raise for tables that this
version cannot read, and what reading data files raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable import options as opt
from widetable.commit.live_files import LiveFiles
from widetable.errors import InvalidError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.row_batch import in_schema_order, project, row_batch_schema, without_columns
from widetable.format.row_budget import BATCH_BYTES
from widetable.format.snapshot import Snapshot
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.gather import take
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.key_match import Positions, match_keys
from widetable.kernels.merge_order import group_starts, sort_order
from widetable.lsm.file_rows import Caches
from widetable.lsm.key_lookup import key_pieces, piece_budget
from widetable.lsm.levels import levels_of
from widetable.lsm.rows_opener import RowsOpener
from widetable.lsm.run_rows import RunRows
from widetable.merge.sorted_merge import merge_runs
from widetable.operations.lookup_keys import key_rows
from widetable.read.expired import files_of
from widetable.read.scan_plan import placed
from widetable.read.split import needs_merge
from widetable.schema import TableSchema, check_fixed_buckets
from widetable.worker_thread import in_threads
from widetable.write.bucket_split import split_by_bucket
from widetable.write.table_state import TableState

_THREADS: Final = 2
# Reserved: no table has a column of this name. Holds the number of a key as it was given.
_NUMBER: Final = "_ROW_ID"


def lookup_rows(
    table: TableState,
    live_files: LiveFiles,
    snapshot: Snapshot | None,
    keys: Any,
    columns: Sequence[str] | None,
    caches: Caches | None,
    *,
    rescaled: bool,
) -> pa.Table:
    """The rows of the keys: one per key, in their order, with these columns (None: all), all of them nullable.

    rescaled: the number of buckets may differ between partitions.
    """
    schema = table.schema
    check_fixed_buckets(schema)
    names = schema.chosen(columns)
    given = key_rows(keys, schema)
    parts = _parts(schema, live_files, snapshot, _numbered(given), rescaled=rescaled)
    reader = _BucketReader(table, names, caches, use_threads=len(parts) < 2)
    with files_of(table, 0 if snapshot is None else snapshot.id):
        if len(parts) < 2:
            all_found = [reader.find(part) for part in parts]
        else:
            all_found = in_threads(reader.find, parts, _THREADS, "lookup")
    return _table(schema, names, given.num_rows, all_found)


class _LookupPart(NamedTuple):
    """The keys of one bucket, in any order, repeated ones too, and the files of the bucket."""

    bucket: BucketId
    files: tuple[DataFileMeta, ...]
    keys: pa.RecordBatch


class _PartFound(NamedTuple):
    """rows: without system columns. numbers, positions int64[h]: given key numbers[i] has row positions[i] of them."""

    rows: list[pa.RecordBatch]
    numbers: Positions
    positions: Positions


def _numbered(given: pa.RecordBatch) -> pa.RecordBatch:
    """The keys that may be in a table, those without null, with their numbers."""
    present = np.ones(given.num_rows, np.bool_)
    for column in given.columns:
        if column.null_count:
            present &= column.is_valid().to_numpy(zero_copy_only=False)
    numbers = pa.array(np.flatnonzero(present))
    kept = given if len(numbers) == given.num_rows else given.take(numbers)
    return kept.append_column(_NUMBER, numbers)


def _parts(
    schema: TableSchema,
    live_files: LiveFiles,
    snapshot: Snapshot | None,
    keys: pa.RecordBatch,
    *,
    rescaled: bool,
) -> list[_LookupPart]:
    """The keys by bucket. Buckets without files are left out."""
    if not rescaled:
        split = list(split_by_bucket(keys, schema))
        partitions = frozenset(bucket.partition for bucket, _ in split)
        buckets = frozenset(bucket.number for bucket, _ in split)
        entries = live_files.live_entries(snapshot, partitions, buckets) if split else []
        return _with_files(split, placed(entries))
    whole = _with_buckets(schema, 1)
    partitions = frozenset(bucket.partition for bucket, _ in split_by_bucket(keys, whole))
    live = placed(live_files.live_entries(snapshot, partitions) if partitions else [])
    found = []
    for total in sorted({members[0].total_buckets for members in live.values()}):
        members_of = {b: each for b, each in live.items() if each[0].total_buckets == total}
        found += _with_files(split_by_bucket(keys, _with_buckets(schema, total)), members_of)
    return found


def _with_buckets(schema: TableSchema, number: int) -> TableSchema:
    return replace(schema, options={**schema.options, opt.BUCKET.key: str(number)})


def _with_files(
    split: Iterable[tuple[BucketId, pa.RecordBatch]],
    live: Mapping[BucketId, Sequence[ManifestEntry]],
) -> list[_LookupPart]:
    return [
        _LookupPart(bucket, tuple(entry.file for entry in live[bucket]), keys)
        for bucket, keys in split
        if bucket in live
    ]


@dataclass(frozen=True)
class _BucketReader:
    """columns: that are wanted, in any order."""

    table: TableState
    columns: tuple[str, ...]
    caches: Caches | None
    use_threads: bool

    def find(self, part: _LookupPart) -> _PartFound:
        """The rows of the keys of one bucket."""
        names = self.table.schema.trimmed_primary_key
        lanes = key_lanes([part.keys.column(name) for name in names])
        order = sort_order(lanes, np.zeros(len(lanes), np.int64))
        starts = group_starts(lanes, order)
        distinct = part.keys.select(names).take(pa.array(order[starts[:-1]]))
        places = np.full(distinct.num_rows, -1, np.int64)
        rows = []
        count = 0
        for batch in self._rows(part, distinct):
            hits, positions = match_keys(distinct.columns, [batch.column(name) for name in names])
            places[hits] = count + positions
            count += batch.num_rows
            rows.append(batch.select(in_schema_order(self.table.schema, self.columns)))
        numbers = fixed_values(part.keys.column(_NUMBER), np.int64)[order]
        return _PartFound(rows, numbers, np.repeat(places, np.diff(starts)))

    def _rows(self, part: _LookupPart, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Row batches of the visible rows of these keys, as a scan gives them."""
        table, schema, engine = self.table, self.table.schema, self.table.engine
        wanted = in_schema_order(schema, [*schema.trimmed_primary_key, *self.columns])
        complete = row_batch_schema(schema, wanted)
        merges = needs_merge(part.files)
        loaded = engine.needed_columns(schema, wanted) if merges else wanted
        opener = RowsOpener(table, part.bucket, loaded, self.caches, use_threads=self.use_threads)
        newest_first = levels_of(part.files, table.options).sorted_runs()
        runs = [RunRows(opener, run, schema, keys.num_rows) for run in reversed(newest_first)]
        try:
            inputs = [_run(run, keys) for run in runs]
            if merges:
                yield from merge_runs(
                    inputs, schema, engine, wanted, keep_deletes=False, batch_bytes=BATCH_BYTES
                )
            else:
                yield from (project(rows, complete) for rows in chain.from_iterable(inputs))
        finally:
            for run in runs:
                run.close()


def _run(run: RunRows, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    budget = piece_budget()
    for piece in key_pieces(keys, budget):
        for found in run.find(piece):
            budget.saw(found.rows)
            yield found.rows


def _table(
    schema: TableSchema, names: Sequence[str], keys: int, all_found: Sequence[_PartFound]
) -> pa.Table:
    """The rows of all buckets, brought into the order of the keys."""
    places = np.full(keys, -1, np.int64)
    batches: list[pa.RecordBatch] = []
    count = 0
    for found in all_found:
        places[found.numbers] = np.where(found.positions < 0, -1, found.positions + count)
        count += sum(batch.num_rows for batch in found.rows)
        batches += found.rows
    fields = [field.with_nullable(True) for field in schema.arrow_schema(names)]
    if not fields:
        return pa.Table.from_batches([without_columns(keys)])
    columns = [_column(batches, field, places) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _column(batches: Sequence[pa.RecordBatch], field: pa.Field, places: Positions) -> pa.Array:
    found = pa.chunked_array([batch.column(field.name) for batch in batches], field.type)
    try:
        return take(found, places)
    except pa.ArrowInvalid as cause:
        raise InvalidError(
            "keys",
            found=f"{len(places)} keys, whose values of {field.name!r} do not fit into one array: {cause}",
            expected="less than 2 GiB of text or bytes in a column",
            action="Look up fewer keys at once.",
        ) from cause
