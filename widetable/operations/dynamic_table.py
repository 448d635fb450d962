"""Tables with dynamic buckets: who may write them, and where their keys are.

In: an open table. Raises UnsupportedError for several writers of one commit, and what reading its indexes raises.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from widetable import options as opt
from widetable.commit.partition_buckets import partition_buckets
from widetable.errors import UnsupportedError
from widetable.operations.open_table import OpenTable
from widetable.schema import TableSchema
from widetable.write.dynamic_buckets import DynamicBuckets, PartitionBuckets


def dynamic_buckets(table: OpenTable, schema: TableSchema) -> DynamicBuckets:
    """Of the newest snapshot, for one writer."""
    committer = table._committer
    load: Callable[[bytes], PartitionBuckets] = partial(
        partition_buckets,
        table._state(schema),
        committer.live_files,
        committer.indexes.hashes,
        committer.snapshots.latest(),
    )
    return DynamicBuckets(schema, load)


def check_alone(schema: TableSchema, tasks: int | None) -> None:
    """Several writers would put one new key into several buckets."""
    if tasks != 1:
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=f"{schema.num_buckets} (dynamic buckets), and a commit of several tasks",
            expected="one writer at a time",
            action="Write from Python (Table.write), or make the table with a fixed number of buckets.",
        )
