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
from widetable.lsm.bucket_plan import Scope, plan_bucket
from widetable.lsm.compaction import compact_bucket
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
from widetable.write.discard import discard_files
from widetable.write.places import with_buckets
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_state import TableState
from widetable.write.table_writer import TableWriter

_MOST_TRIES: Final = 10
# What rows that are there already are not written by.
_OF_WRITERS: Final = (
    opt.CHANGELOG_PRODUCER.key,
    opt.DELETION_VECTORS_ENABLED.key,
    opt.ROWKIND_FIELD.key,
)
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
    rescaled(table._committer.schemas, count)
    wait_for_compactions(table.path)
    done: list[CommitResult] = []
    for _ in range(_MOST_TRIES):
        due = _due(table, count)
        for partition in due:
            result = _attempt(table, count, partition)
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


def _attempt(table: OpenTable, count: int, partition: bytes) -> CommitResult | None:
    """Rewrite a partition as it is now; None when somebody else was first."""
    committer = table._committer
    with held_newest(table._state(), committer) as latest:
        # Taken after the snapshot: it knows all columns there.
        schema = with_buckets(committer.schemas.latest(), count)
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
    """The rows in files of the new buckets: whole rows, and nothing older, so they lie on the lowest level. They are
    inserts, whatever a column of row kinds says, and no changelog is made of them.
    """
    options = {key: text for key, text in schema.options.items() if key not in _OF_WRITERS}
    state = table._state(replace(schema, options=options))
    numbers = SequenceAllocator(table._committer.sequence_base(), 0, 1)
    with TableWriter(state, schema.names, numbers, row_kind=None) as writer:
        for batch in rows:
            writer.write(batch)
        messages = writer.finish()
    settled: list[CommitMessage] = []
    try:
        for message in messages:
            settled.append(_settled(state, message))
    except BaseException:
        discard(table, [*settled, *messages[len(settled) :]])
        raise
    return settled


def _settled(state: TableState, message: CommitMessage) -> CommitMessage:
    """Runs of a bucket that overlap, because a buffer was full in between, become one."""
    files = message.new_files
    if any(len(section.runs) > 1 for section in sections(files, state.schema)):
        plan = plan_bucket(state.schema, state.engine, files, Scope.FULL)
        merged = compact_bucket(state, message.bucket_id, message.total_buckets, plan)
        kept = {file.file_name for file in merged.compact_after}
        left = [file for file in files if file not in merged.compact_before]
        discard_files(
            state, message.bucket_id, [f for f in merged.compact_before if f.file_name not in kept]
        )
        return replace(message, new_files=(*left, *merged.compact_after))
    level = levels_of((), state.options).max_level
    return replace(message, new_files=tuple(file._replace(level=level) for file in files))
