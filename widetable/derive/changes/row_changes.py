"""The row changes of a range of snapshots: each key that was written, with its row before and after.

    touched   keys that appends and overwrites after snapshot s0, up to s, wrote (commit/transaction/touched_keys)
    before    their rows at s0           after    their rows at s          by lookup, in columns of today

So the result does not depend on a changelog, on compactions, or on how often a key was written in between; the same
range always gives the same result. s0 = None: all rows of s are new. The caller must keep both snapshots from expiry.
Memory: the touched keys of a bucket, or of a rescaled partition, and the rows of a piece of them.

Raises NotFoundError for snapshots that have expired, and what lookups and scans raise.

    s0 = 3: k 1 a, k 2 b        4 writes k 2 c        5 deletes k 1        6 writes k 2 b and k 3 d
    (3, 6]: touched 1, 2, 3     before a, b, null     after null, b, d     k 2 is equal: the caller leaves it out
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.commit.transaction.touched_keys import (
    TouchedFiles,
    distinct_keys,
    touched_files,
    touched_groups,
)
from widetable.derive.changes.join_partitions import partition_values
from widetable.format.bucket_id import BucketId
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.schema.table_schema import TableSchema

_KEYS_AT_ONCE: Final = 1 << 16


class ChangedRows(NamedTuple):
    """Two tables with one row per touched key and the same nullable columns; a missing row is null in all of them."""

    before: pa.Table
    after: pa.Table


def changed_rows(
    table: OpenTable, after_id: int | None, until_id: int, columns: Sequence[str]
) -> Iterator[ChangedRows]:
    """Yield the changed rows piece by piece, each key once.

    columns: current names, including those of the primary key. after_id: None if there is no earlier state. until_id:
    not smaller than after_id.
    """
    if after_id is None:
        yield from _from_nothing(table, until_id, columns)
        return
    touched = _touched(table, after_id, until_id)
    if not touched:
        return
    with (
        closing(view_at(table, after_id, columns)) as old,
        closing(view_at(table, until_id, columns)) as new,
    ):
        yield from _rows_of(table, touched, old, new)


def rows_between(
    table: OpenTable, after_id: int, until_id: int, old: LookupView, new: LookupView
) -> Iterator[ChangedRows]:
    """Yield the changed rows, read by views of the two snapshots that the caller has open."""
    yield from _rows_of(table, _touched(table, after_id, until_id), old, new)


def _touched(table: OpenTable, after_id: int, until_id: int) -> TouchedFiles:
    return touched_files(table._state(), table._committer.live_files, after_id, until_id)


def _rows_of(
    table: OpenTable, touched: TouchedFiles, old: LookupView, new: LookupView
) -> Iterator[ChangedRows]:
    state = table._state()
    for files in touched_groups(state, touched):
        bucket, keys = next(iter(files)), distinct_keys(state, files)
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            piece = whole_keys(keys.slice(start, _KEYS_AT_ONCE), bucket, state.schema)
            yield ChangedRows(old.lookup(piece), new.lookup(piece))


def whole_keys(keys: pa.RecordBatch, bucket: BucketId, schema: TableSchema) -> pa.RecordBatch:
    """Return the keys of a bucket as whole primary keys, with the partition columns."""
    partition = partition_values(bucket.partition, schema) if schema.partition_keys else {}
    columns = [
        pa.repeat(partition[name], keys.num_rows) if name in partition else keys.column(name)
        for name in schema.primary_keys
    ]
    return pa.RecordBatch.from_arrays(columns, list(schema.primary_keys))


def _from_nothing(table: OpenTable, until_id: int, columns: Sequence[str]) -> Iterator[ChangedRows]:
    scan = scan_at(table, until_id, columns)
    schema = pa.schema([field.with_nullable(True) for field in scan.arrow_schema])
    for batch in scan.to_batches():
        after = pa.Table.from_arrays(batch.columns, schema=schema)
        nothing = [pa.nulls(batch.num_rows, field.type) for field in schema]
        yield ChangedRows(pa.Table.from_arrays(nothing, schema=schema), after)
