"""Gives a table another number of buckets: the option for partitions to come, a rewriting for those that are there.

    per partition of another number   rows of the newest snapshot ─► files in the new buckets ─► one OVERWRITE snapshot

Each partition is a commit of its own, which replaces just the files that were read: who wrote to the partition
meanwhile makes it begin anew. Until its turn a partition keeps its number, for readers and writers (`write/places.py`).
Rows come as merged rows with new sequence numbers. Source: Paimon's rescale by INSERT OVERWRITE (its page "Rescale
Bucket"). Raises UnsupportedError for dynamic buckets and keys without the partition, ConflictError where writers are
always first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from widetable import options as opt
from widetable.arguments import whole_number
from widetable.commit.committer import CommitResult
from widetable.errors import ConflictError
from widetable.format.bucket_id import by_bucket
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm.levels import levels_of
from widetable.lsm.sorted_run import sections
from widetable.operations.alteration import rescaled
from widetable.operations.compaction_threads import wait_for_compactions
from widetable.operations.newest_snapshot import held_newest
from widetable.operations.open_table import OpenTable
from widetable.operations.supported import check_takes_rows, check_writable
from widetable.operations.table_commit import discard
from widetable.read.split import Split, SplitRead, needs_merge
from widetable.schema import TableSchema
from widetable.schema_rules import check_fixed_buckets
from widetable.write.commit_message import CommitMessage
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_writer import TableWriter

_MOST_TRIES: Final = 10
_log = logging.getLogger("widetable")


def rescale(table: OpenTable, buckets: int) -> list[CommitResult]:
    """Give the table another number of buckets, and every partition that has another one. The commits, one for each of
    these; none where all have it.

    Reads go on meanwhile, and writes: one that started with a partition's old buckets is refused, and is to be made
    again. Readers of changes get nothing. Killed, it goes on when it is called again.
    """
    count = whole_number(buckets, "buckets", least=1)
    check_writable(table.schema)
    check_fixed_buckets(table.schema)
    check_takes_rows(table.schema)
    schema = rescaled(table._committer.schemas, count)
    wait_for_compactions(table.path)
    done: list[CommitResult] = []
    for _ in range(_MOST_TRIES):
        due = _due(table, count)
        for partition in due:
            result = _attempt(table, schema, partition)
            if result is not None:
                done.append(result)
        if not due:
            return done
    raise ConflictError(
        table.path,
        found=f"partitions that others wrote to in each of {_MOST_TRIES} tries",
        expected="to be first once",
        action="Rescale again, or stop what writes to the table.",
    )


def _due(table: OpenTable, count: int) -> list[bytes]:
    """Partitions with another number of buckets."""
    committer = table._committer
    entries = committer.live_files.live_entries(committer.snapshots.latest())
    return sorted({entry.partition for entry in entries if entry.total_buckets != count})


def _attempt(table: OpenTable, schema: TableSchema, partition: bytes) -> CommitResult | None:
    """Rewrite a partition as it is now; None when somebody else was first."""
    committer = table._committer
    with held_newest(table._state(schema), committer) as latest:
        entries = committer.live_files.live_entries(latest, frozenset([partition]))
        snapshot_id = 0 if latest is None else latest.id
        new = _written(table, schema, _rows(table, schema, entries, snapshot_id))
    gone = [
        CommitMessage(
            *bucket,
            members[0].total_buckets,
            deleted_files=tuple(entry.file for entry in members),
        )
        for bucket, members in by_bucket(entries).items()
    ]
    try:
        return committer.restore([*gone, *new], None)
    except ConflictError as lost:
        _log.info("a partition of %s is rescaled again: %s", table.path, lost)
        discard(table, new)
        return None


def _rows(
    table: OpenTable, schema: TableSchema, entries: Sequence[ManifestEntry], snapshot_id: int
) -> Iterator[pa.RecordBatch]:
    state = table._state(schema)
    for bucket, members in by_bucket(entries).items():
        files = tuple(entry.file for entry in members)
        split = Split(snapshot_id, bucket, files, needs_merge(files))
        yield from SplitRead(state, split, schema.names).to_batches()


def _written(
    table: OpenTable, schema: TableSchema, rows: Iterator[pa.RecordBatch]
) -> list[CommitMessage]:
    """The rows in files of the new buckets: whole rows, and nothing older, so they lie on the lowest level."""
    quiet = replace(schema, options={**schema.options, opt.CHANGELOG_PRODUCER.key: "none"})
    numbers = SequenceAllocator(table._committer.sequence_base(), 0, 1)
    with TableWriter(table._state(quiet), schema.names, numbers, row_kind=None) as writer:
        for batch in rows:
            writer.write(batch)
        messages = writer.finish()
    return [_settled(message, schema) for message in messages]


def _settled(message: CommitMessage, schema: TableSchema) -> CommitMessage:
    if any(len(section.runs) > 1 for section in sections(message.new_files, schema)):
        return message
    level = levels_of((), schema.typed_options).max_level
    return replace(
        message, new_files=tuple(file._replace(level=level) for file in message.new_files)
    )
