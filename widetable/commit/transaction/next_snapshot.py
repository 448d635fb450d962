"""Makes the snapshot that follows another one. Pure.

Source: Paimon `FileStoreCommitImpl.tryCommitOnce`; every key by format.md section 3. Carried over: the total of rows,
the watermark and next row id, statistics while the schema stays, and the properties of `committed`. Not carried over:
other properties, and keys that this version does not know. The changelog is that of this commit alone.

    total_record_count = that of the snapshot before + rows of added files - rows of deleted ones
    delta_record_count =                               rows of added files - rows of deleted ones

These are rows of files: rows of one key in several files count several times, and a compaction that merges them lowers
the total. The uuid does not change between attempts, so that a publish whose answer was lost is recognised.
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
    RESTORED_FROM,
    RETRIES,
    ROWS,
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
    """Return the snapshot after `head`, with its schema. users, waiting, highest_sequence_number, watermark: as of
    `head`. barriers: see barrier_gate. now_millis: by this machine's clock. took_millis: since the commit began.
    """
    previous, request, schema_id = head.latest, run.request, head.schema.id
    time_millis = commit_millis(now_millis, previous.time_millis if previous else None)
    delta_rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in delta)
    return Snapshot(
        id=_next_id(previous),
        schema_id=schema_id,
        base_manifest_list=base_list.name,
        base_manifest_list_size=base_list.size_bytes,
        delta_manifest_list=delta_list.name,
        delta_manifest_list_size=delta_list.size_bytes,
        commit_user=request.by.user,
        commit_identifier=request.by.identifier,
        commit_kind=request.kind,
        time_millis=time_millis,
        total_record_count=(previous.total_record_count if previous else 0) + delta_rows,
        delta_record_count=delta_rows,
        uuid=run.uuid,
        index_manifest=index_manifest,
        writer_version=WRITER_VERSION,
        changelog_manifest_list=changelog_list.name if changelog_list else None,
        changelog_manifest_list_size=changelog_list.size_bytes if changelog_list else None,
        changelog_record_count=_changelog_rows(request) if changelog_list else None,
        watermark=larger(watermark, request.watermark),
        statistics=previous.statistics if previous and previous.schema_id == schema_id else None,
        next_row_id=previous.next_row_id if previous else None,
        properties={
            # The caller's properties come first, so that they replace none of the commit's own.
            **request.properties,
            **_column_property(head, request),
            **barriers,
            **_user_properties(head, request, delta, time_millis, users, highest_sequence_number),
            **_row_properties(request, run.retries, took_millis),
            **_backlog_property(head, request, time_millis, waiting),
        },
    )


def _user_properties(
    head: HeadState,
    request: CommitRequest,
    delta: Sequence[ManifestEntry],
    time_millis: int,
    users: Users,
    highest_sequence_number: int,
) -> dict[str, str]:
    """Return the properties of the last commit of each user, and of the highest sequence number of all files."""
    return next_properties(
        users,
        max([highest_sequence_number, *(e.file.max_sequence_number for e in delta)]),
        request.by.user,
        _own_commit(request, _next_id(head.latest), time_millis),
        head.schema.typed_options.get(COMMIT_USER_RETENTION),
    )


def _next_id(previous: Snapshot | None) -> int:
    return 1 if previous is None else previous.id + 1


def _backlog_property(
    head: HeadState, request: CommitRequest, time_millis: int, before: Uncompacted | None
) -> dict[str, str]:
    if not needs_a_maintainer(head.schema.typed_options):
        return {}
    return next_uncompacted(before, request.kind, time_millis, has_rows=bool(request.adds))


def _changelog_rows(request: CommitRequest) -> int:
    return sum(entry.file.row_count for entry in request.changelog)


def _column_property(head: HeadState, request: CommitRequest) -> dict[str, str]:
    """Return the property of the columns that an append wrote; none if they are not known, or are all columns."""
    if request.kind != COMMIT_KIND_APPEND or any(
        e.file.delete_row_count != 0 for e in request.adds
    ):
        return {}
    ids = union(message.columns for message in request.messages if message.new_files)
    if ids is None or ids >= value_ids(head.schema):
        return {}
    return {COLUMNS: columns_text(ids)}


def _own_commit(request: CommitRequest, id: int, time_millis: int) -> LastCommit | None:
    """Return this commit as later snapshots record it; None for a compaction and for a commit without an identifier."""
    if request.kind == COMMIT_KIND_COMPACT or not request.by.counts:
        return None
    return LastCommit(request.by.identifier, id, time_millis, request.by.digest)


def _row_properties(request: CommitRequest, retries: int, took_millis: int) -> dict[str, str]:
    """Return the properties of added rows and cost, of expired rows, and of a rescaling or a rollback."""
    rows = sum(message.expired_rows for message in request.messages)
    expired = {EXPIRED_ROWS: str(rows)} if rows else {}
    rescaled = {} if request.rescaled is None else {RESCALED: str(request.rescaled)}
    went_back = {} if request.restores is None else {RESTORED_FROM: str(request.restores.id)}
    return {
        ROWS: str(sum(entry.file.row_count for entry in request.adds)),
        FILES: str(len(request.adds)),
        RETRIES: str(retries),
        COMMIT_MILLIS: str(took_millis),
        **expired,
        **rescaled,
        **went_back,
    }
