"""The snapshot that follows another one. Pure.

Source: Paimon `FileStoreCommitImpl.tryCommitOnce`; every key by format.md section 3. Carried
over: the total of rows, the watermark and next row id, statistics while the schema stays, and
what `committed` remembers. Not carried over: other properties, and keys that this version does
not know. The changelog is that of this commit alone.

    total_record_count = that of the snapshot before + rows of added files - rows of deleted ones
    delta_record_count =                               rows of added files - rows of deleted ones

Rows of files, that is: rows of one key in several files count several times, and a compaction that
merges them makes the total smaller. The uuid is the same in all attempts, so that a publish whose
answer was lost is recognised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from widetable.commit.snapshots.committed import (
    COLUMNS,
    COMMIT_MILLIS,
    EXPIRED_ROWS,
    FILES,
    RESCALED,
    RETRIES,
    ROWS,
    WENT_BACK_TO,
    LastCommit,
    Users,
    next_properties,
)
from widetable.commit.snapshots.committed_columns import columns_text, union, value_ids
from widetable.commit.snapshots.snapshot_times import commit_millis
from widetable.commit.snapshots.uncompacted import Uncompacted, needs_a_maintainer, next_uncompacted
from widetable.commit.snapshots.watermarks import larger
from widetable.commit.transaction.attempts import Attempts
from widetable.commit.transaction.commit_files import ListFile
from widetable.commit.transaction.commit_request import CommitRequest
from widetable.commit.transaction.table_head import HeadState
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_COMPACT, Snapshot
from widetable.schema.retention_options import COMMIT_USER_RETENTION

WRITER_VERSION: Final = "widetable"


def next_snapshot(
    head: HeadState,
    run: Attempts,
    delta: Sequence[ManifestEntry],
    *,
    base_list: ListFile,
    delta_list: ListFile,
    changelog_list: ListFile | None,
    index_manifest: str | None,
    now_millis: int,
    took_millis: int,
    users: Users,
    waiting: Uncompacted | None,
    highest_sequence_number: int,
    barriers: Mapping[str, str],
    watermark: int | None,
) -> Snapshot:
    """head: what it follows, and the schema that it gets. users, waiting, highest_sequence_number, watermark: as of
    there. barriers: see barrier_gate. now_millis: of who commits. took_millis: since it began.
    """
    previous, asked, schema_id = head.latest, run.asked, head.schema.id
    time_millis = commit_millis(now_millis, previous.time_millis if previous else None)
    delta_rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in delta)
    return Snapshot(
        id=_next_id(previous),
        schema_id=schema_id,
        base_manifest_list=base_list.name,
        base_manifest_list_size=base_list.size_bytes,
        delta_manifest_list=delta_list.name,
        delta_manifest_list_size=delta_list.size_bytes,
        commit_user=asked.by.user,
        commit_identifier=asked.by.identifier,
        commit_kind=asked.kind,
        time_millis=time_millis,
        total_record_count=(previous.total_record_count if previous else 0) + delta_rows,
        delta_record_count=delta_rows,
        uuid=run.uuid,
        index_manifest=index_manifest,
        writer_version=WRITER_VERSION,
        changelog_manifest_list=changelog_list.name if changelog_list else None,
        changelog_manifest_list_size=changelog_list.size_bytes if changelog_list else None,
        changelog_record_count=_changelog_rows(asked) if changelog_list else None,
        watermark=larger(watermark, asked.watermark),
        statistics=previous.statistics if previous and previous.schema_id == schema_id else None,
        next_row_id=previous.next_row_id if previous else None,
        properties={
            # What a caller gives comes first: it replaces nothing that the commit says itself.
            **asked.properties,
            **_columns(head, asked),
            **barriers,
            **_of_users(head, asked, delta, time_millis, users, highest_sequence_number),
            **_of_rows(asked, run.retries, took_millis),
            **_waiting(head, asked, time_millis, waiting),
        },
    )


def _of_users(
    head: HeadState,
    asked: CommitRequest,
    delta: Sequence[ManifestEntry],
    time_millis: int,
    users: Users,
    highest_sequence_number: int,
) -> dict[str, str]:
    """Who has committed what last, and the highest sequence number of all files."""
    return next_properties(
        users,
        max([highest_sequence_number, *(e.file.max_sequence_number for e in delta)]),
        asked.by.user,
        _remembered(asked, _next_id(head.latest), time_millis),
        head.schema.typed_options.get(COMMIT_USER_RETENTION),
    )


def _next_id(previous: Snapshot | None) -> int:
    return 1 if previous is None else previous.id + 1


def _waiting(
    head: HeadState, asked: CommitRequest, time_millis: int, before: Uncompacted | None
) -> dict[str, str]:
    if not needs_a_maintainer(head.schema.typed_options):
        return {}
    return next_uncompacted(before, asked.kind, time_millis, has_rows=bool(asked.adds))


def _changelog_rows(asked: CommitRequest) -> int:
    return sum(entry.file.row_count for entry in asked.changelog)


def _columns(head: HeadState, asked: CommitRequest) -> dict[str, str]:
    """Which columns an append of adds has written; not said where nobody knows, and where it is all of them."""
    if asked.kind != COMMIT_KIND_APPEND or any(e.file.delete_row_count != 0 for e in asked.adds):
        return {}
    ids = union(message.columns for message in asked.messages if message.new_files)
    if ids is None or ids >= value_ids(head.schema):
        return {}
    return {COLUMNS: columns_text(ids)}


def _remembered(asked: CommitRequest, id: int, time_millis: int) -> LastCommit | None:
    """What later snapshots remember of this one; nothing of a compaction, nor of a commit without an identifier."""
    if asked.kind == COMMIT_KIND_COMPACT or not asked.by.counts:
        return None
    return LastCommit(asked.by.identifier, id, time_millis, asked.by.digest)


def _of_rows(asked: CommitRequest, retries: int, took_millis: int) -> dict[str, str]:
    """What was added at what cost, whether rows went that nobody deleted, were only moved, or are those of before."""
    rows = sum(message.expired_rows for message in asked.messages)
    expired = {EXPIRED_ROWS: str(rows)} if rows else {}
    rescaled = {} if asked.rescaled is None else {RESCALED: str(asked.rescaled)}
    went_back = {} if asked.restores is None else {WENT_BACK_TO: str(asked.restores.id)}
    return {
        ROWS: str(sum(entry.file.row_count for entry in asked.adds)),
        FILES: str(len(asked.adds)),
        RETRIES: str(retries),
        COMMIT_MILLIS: str(took_millis),
        **expired,
        **rescaled,
        **went_back,
    }
