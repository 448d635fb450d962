"""Gives a table another number of buckets: the option for partitions to come, a rewriting for those that are there.

    per partition of another number   records of the newest snapshot ─► files in new buckets ─► one OVERWRITE snapshot

Each partition is a commit of its own, which replaces just the files that were read: who wrote to the partition
meanwhile makes it begin anew. Until its turn a partition keeps its number, for readers and writers (`write/places.py`).
What is moved is what a full compaction leaves: merged rows, with the deletes that hold back late records; every record
where rows are only merged when they are read. Source: Paimon's rescale by INSERT OVERWRITE (its page "Rescale Bucket"),
which takes merged rows. Raises UnsupportedError for dynamic buckets and keys without the partition, ConflictError where
writers are always first.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from widetable import options as opt
from widetable.arguments import whole_number
from widetable.commit.committer import CommitResult
from widetable.errors import ConflictError
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm.bucket_plan import Merge, plan_whole
from widetable.lsm.compaction import compact_bucket, rows_after
from widetable.lsm.levels import levels_of
from widetable.lsm.sorted_run import sections
from widetable.merge.engine import ENGINES
from widetable.merge.every_record import EveryRecord
from widetable.operations.alteration import rescaled
from widetable.operations.compaction_threads import wait_for_compactions
from widetable.operations.newest_snapshot import held_newest
from widetable.operations.open_table import OpenTable
from widetable.operations.supported import check_takes_rows, check_writable
from widetable.operations.table_commit import discard
from widetable.schema import TableSchema
from widetable.schema_rules import check_fixed_buckets
from widetable.write.bucket_split import split_by_bucket
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.places import with_buckets
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState
from widetable.write.write_buffer import Run, WriteBuffer

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
    rescaled(table._committer.schemas, count)
    wait_for_compactions(table.path)
    done: list[CommitResult] = []
    for _ in range(_MOST_TRIES):
        due = _due(table, count)
        for partition in due:
            result = _attempt(table, count, partition)
            if result is not None and result.committed:
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
        newest = committer.schemas.latest()
        _check_still_asked(table, newest, count)
        schema = with_buckets(newest, count)
        entries = committer.live_files.live_entries(latest, frozenset([partition]))
        new = _written(table, schema, _records(table, schema, entries))
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


def _check_still_asked(table: OpenTable, newest: TableSchema, count: int) -> None:
    """Whoever gave the table its number last does all partitions, those that were done with another one too."""
    if newest.num_buckets != count:
        raise ConflictError(
            table.path,
            found=f"another rescaling, to {newest.num_buckets} buckets, that began after this one to {count}",
            expected="one at a time",
            action="Rescale again if the table shall have that number after all.",
        )


def _records(
    table: OpenTable, schema: TableSchema, entries: Sequence[ManifestEntry]
) -> Iterator[pa.RecordBatch]:
    """What all that is written later will be merged with, bucket by bucket, with kinds and sequence numbers."""
    state = table._state(schema)
    for bucket, members in by_bucket(entries).items():
        step = plan_whole(schema, state.engine, [entry.file for entry in members])
        yield from rows_after(state, bucket, step)


def _written(
    table: OpenTable, schema: TableSchema, records: Iterator[pa.RecordBatch]
) -> list[CommitMessage]:
    """The records in files of the new buckets, all columns wide. No changelog is made of them."""
    state = table._state(schema)
    merges = isinstance(plan_whole(schema, state.engine, ()), Merge)
    # Of a merged row there is no other of its key: any engine gives it as it is.
    engine = ENGINES["deduplicate"] if merges else EveryRecord()
    buffer = WriteBuffer(schema, engine, schema.names, state.options.get(opt.WRITE_BUFFER_SIZE))
    written: list[CommitMessage] = []
    with contextlib.ExitStack() as stack:
        stack.callback(buffer.release)
        for batch in records:
            for bucket, part in split_by_bucket(batch, schema):
                buffer.add(bucket, part)
        try:
            for bucket in buffer.buckets():
                files = _files(state, bucket, buffer)
                message = CommitMessage(*bucket, schema.num_buckets, new_files=files)
                written.append(message)
                written[-1] = _settled(state, message)
        except BaseException:
            discard(table, written)
            raise
    return written


def _files(state: TableState, bucket: BucketId, buffer: WriteBuffer) -> tuple[DataFileMeta, ...]:
    """Of one bucket: each of its runs by itself."""
    files: list[DataFileMeta] = []
    try:
        for run in buffer.take(bucket):
            files += _run_files(state, bucket, run)
    except BaseException:
        discard_files(state, bucket, files)
        raise
    return tuple(files)


def _run_files(state: TableState, bucket: BucketId, run: Run) -> tuple[DataFileMeta, ...]:
    names = state.schema.names
    writer = RollingWriter(state, bucket, names, level=0, file_source=FILE_SOURCE_APPEND)
    try:
        for rows in run:
            writer.write(rows)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def _settled(state: TableState, message: CommitMessage) -> CommitMessage:
    """One run lies on the lowest level: nothing older is in the bucket. Runs that overlap, because a buffer was full in
    between, become one; those of records stay as they are.
    """
    files = message.new_files
    if all(len(section.runs) == 1 for section in sections(files, state.schema)):
        level = levels_of((), state.options).max_level
        return replace(message, new_files=tuple(file._replace(level=level) for file in files))
    step = plan_whole(state.schema, state.engine, files)
    if not isinstance(step, Merge):
        return message
    merged = compact_bucket(state, message.bucket_id, message.total_buckets, (step,))
    kept = {file.file_name for file in merged.compact_after}
    left = [file for file in files if file not in merged.compact_before]
    discard_files(
        state, message.bucket_id, [f for f in merged.compact_before if f.file_name not in kept]
    )
    return replace(message, new_files=(*left, *merged.compact_after))
