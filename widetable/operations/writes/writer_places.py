"""Where a writer's rows go: by the indexes of dynamic buckets, or as many buckets as each partition has.

    buckets of the table     rescaled ever     a writer asks
    fixed                    no                nobody: the schema says it (None)
    fixed                    yes               each partition for its number, when it is first written to
    dynamic                  -                 the hash indexes of the partition; keys that none knows get a bucket

What is looked up is that of the newest snapshot then. A partition that is rescaled later is found
out by the commit (`placed_messages`); a bucket that another writer gave to a new key makes the
later commit a conflict (0032).

In: an open table. Raises UnsupportedError for several writers of one commit with dynamic buckets, and what reading
manifests and indexes raises.
"""

from __future__ import annotations

from widetable.commit.transaction.partition_buckets import partition_buckets
from widetable.errors import UnsupportedError
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.write.dynamic_buckets import DynamicBuckets, PartitionBuckets
from widetable.write.places import CountedBuckets, Places


def writer_places(table: OpenTable, schema: TableSchema, tasks: int | None) -> Places | None:
    """For one writer of `tasks`, of the newest snapshot when a partition is first written to; None where the number of
    buckets says it all.
    """
    committer = table._committer
    if schema.num_buckets >= 1:
        if not committer.schemas.is_rescaled():
            return None

        def count(partition: bytes) -> int | None:
            return committer.live_files.bucket_count(committer.snapshots.latest(), partition)

        return CountedBuckets(schema, count)
    _check_alone(schema, tasks)

    def load(partition: bytes) -> PartitionBuckets:
        latest, hashes = committer.snapshots.latest(), committer.indexes.hashes
        return partition_buckets(
            table._state(schema), committer.live_files, hashes, latest, partition
        )

    return DynamicBuckets(schema, load)


def _check_alone(schema: TableSchema, tasks: int | None) -> None:
    """Several writers would put one new key into several buckets."""
    if tasks != 1:
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=f"{schema.num_buckets} (dynamic buckets), and a commit of several tasks",
            expected="one writer at a time",
            action="Write from Python (Table.write), or make the table with a fixed number of buckets.",
        )
