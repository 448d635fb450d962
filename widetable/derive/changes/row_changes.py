"""What a range of snapshots made of the rows of a table: each key that was touched, with its row before and after.

    touched   keys that appends and overwrites after snapshot s0, up to s, wrote (commit/transaction/touched_keys)
    before    their rows at s0           after    their rows at s          by lookup, in columns of today

So nothing depends on a changelog, on what a commit has compacted yet, or on how often a key was written in between; a
range that is asked for again gives the same. s0 = None: all rows of s, from nothing. Both snapshots must be kept: who
asks holds them. Memory: the touched keys of a bucket, or of a rescaled partition, and the rows of a piece of them.

Raises NotFoundError for snapshots that have expired, and what lookups and scans raise.

    s0 = 3: k 1 a, k 2 b        4 writes k 2 c        5 deletes k 1        6 writes k 2 b and k 3 d
    (3, 6]: touched 1, 2, 3     before a, b, null     after null, b, d     k 2 is equal: who asks leaves it out
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.commit.transaction.touched_keys import distinct_keys, touched_files, touched_groups
from widetable.derive.changes.join_partitions import partition_values
from widetable.format.bucket_id import BucketId
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.schema.table_schema import TableSchema

_KEYS_AT_ONCE: Final = 1 << 16


class ChangedRows(NamedTuple):
    """One row per touched key in both, with the same columns, all nullable; null in all of them where it is not."""

    before: pa.Table
    after: pa.Table


def changed_rows(
    table: OpenTable, after_id: int | None, until_id: int, columns: Sequence[str]
) -> Iterator[ChangedRows]:
    """Piece by piece, each key once. columns: those of the primary key among them.

    They have their names of today. after_id: None for nothing before; until_id: not before it.
    """
    if after_id is None:
        yield from _from_nothing(table, until_id, columns)
        return
    committer, state = table._committer, table._state()
    touched = touched_files(state, committer.live_files, after_id, until_id)
    if not touched:
        return
    with (
        closing(view_at(table, after_id, columns)) as old,
        closing(view_at(table, until_id, columns)) as new,
    ):
        for files in touched_groups(state, touched):
            bucket, keys = next(iter(files)), distinct_keys(state, files)
            for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
                asked = whole_keys(keys.slice(start, _KEYS_AT_ONCE), bucket, state.schema)
                yield ChangedRows(old.lookup(asked), new.lookup(asked))


def whole_keys(keys: pa.RecordBatch, bucket: BucketId, schema: TableSchema) -> pa.RecordBatch:
    """Keys of a bucket with the columns of its partition."""
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
