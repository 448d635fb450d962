"""The buckets of a writer's rows: from the indexes of dynamic buckets, or from the number of buckets of each partition.

    buckets of the table     ever rescaled     a writer reads
    fixed                    no                nothing: the schema has the number (None)
    fixed                    yes               the number of each partition, when it is first written to
    dynamic                  -                 the hash indexes of the partition; keys that none has get a bucket

The lookup uses the newest snapshot of that moment. The commit detects that a partition was rescaled later
(`rebucketed_commit`). If another writer gave a bucket to the same new key, the later commit is a conflict (0032).

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
    """Return the places of one writer of `tasks`, which read the newest snapshot when a partition is first written to;
    None if the schema's number of buckets suffices.
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
    """Raise UnsupportedError for several writers, which would put one new key into several buckets."""
    if tasks != 1:
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=f"{schema.num_buckets} (dynamic buckets), and a commit of several tasks",
            expected="one writer at a time",
            action="Write from Python (Table.write), or make the table with a fixed number of buckets.",
        )
