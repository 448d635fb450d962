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
    PLACED_ROWS,
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
from widetable.commit.snapshots.writer_watermarks import next_watermarks, writer_of
from widetable.commit.transaction.attempts import Attempts
from widetable.commit.transaction.commit_files import ListFile
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_request import (
    Append,
    CommitRequest,
    Compact,
    FileChanges,
    Restore,
    Rewrite,
)
from widetable.commit.transaction.table_head import HeadState
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.schema.retention_options import COMMIT_USER_RETENTION
from widetable.storage.paths import POSTPONED

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
    reached: Mapping[str, int],
) -> Snapshot:
    """Return the snapshot after `head`, with its schema. users, waiting, highest_sequence_number, watermark, reached
    (by each writer): as of `head`. barriers: see barrier_gate. now_millis: by this machine's clock. took_millis: since
    the commit began.
    """
    previous, request, schema_id = head.latest, run.request, head.schema.id
    header, changes = request.header, run.changes
    time_millis = commit_millis(now_millis, previous.time_millis if previous else None)
    delta_rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in delta)
    return Snapshot(
        id=_next_id(previous),
        schema_id=schema_id,
        base_manifest_list=base_list.name,
        base_manifest_list_size=base_list.size_bytes,
        delta_manifest_list=delta_list.name,
        delta_manifest_list_size=delta_list.size_bytes,
        commit_user=header.by.user,
        commit_identifier=header.by.identifier,
        commit_kind=request.kind,
        time_millis=time_millis,
        total_record_count=(previous.total_record_count if previous else 0) + delta_rows,
        delta_record_count=delta_rows,
        uuid=run.uuid,
        index_manifest=index_manifest,
        writer_version=WRITER_VERSION,
        changelog_manifest_list=changelog_list.name if changelog_list else None,
        changelog_manifest_list_size=changelog_list.size_bytes if changelog_list else None,
        changelog_record_count=_rows(changes.changelog) if changelog_list else None,
        watermark=larger(watermark, header.watermark),
        statistics=previous.statistics if previous and previous.schema_id == schema_id else None,
        next_row_id=previous.next_row_id if previous else None,
        properties={
            # The caller's properties come first, so that they replace none of the commit's own.
            **header.properties,
            **_column_property(head, request, changes),
            **barriers,
            **_user_properties(head, header.by, delta, time_millis, users, highest_sequence_number),
            **_row_properties(request, changes, run.retries, took_millis),
            **_backlog_property(head, run, time_millis, waiting),
            **_watermark_property(request, reached, users),
        },
    )


def _user_properties(
    head: HeadState,
    by: Identity,
    delta: Sequence[ManifestEntry],
    time_millis: int,
    users: Users,
    highest_sequence_number: int,
) -> dict[str, str]:
    """Return the properties of the last commit of each user, and of the highest sequence number of all files."""
    return next_properties(
        users,
        max([highest_sequence_number, *(e.file.max_sequence_number for e in delta)]),
        by.user,
        _own_commit(by, _next_id(head.latest), time_millis),
        head.schema.typed_options.get(COMMIT_USER_RETENTION),
    )


def _next_id(previous: Snapshot | None) -> int:
    return 1 if previous is None else previous.id + 1


def _backlog_property(
    head: HeadState, run: Attempts, time_millis: int, before: Uncompacted | None
) -> dict[str, str]:
    if not needs_a_maintainer(head.schema.typed_options):
        return {}
    return next_uncompacted(before, run.request.kind, time_millis, has_rows=bool(run.changes.adds))


def _rows(entries: Sequence[ManifestEntry]) -> int:
    return sum(entry.file.row_count for entry in entries)


def _column_property(
    head: HeadState, request: CommitRequest, changes: FileChanges
) -> dict[str, str]:
    """Return the property of the columns that an append wrote; none if they are not known, or are all columns."""
    has_deletes = any(entry.file.delete_row_count != 0 for entry in changes.adds)
    if has_deletes or not isinstance(request, Append):
        return {}
    ids = union(message.columns for message in changes.messages if message.new_files)
    if ids is None or ids >= value_ids(head.schema):
        return {}
    return {COLUMNS: columns_text(ids)}


def _watermark_property(
    request: CommitRequest, reached: Mapping[str, int], users: Users
) -> dict[str, str]:
    """Return the watermarks of writers. A restored snapshot's is that of no writer."""
    own = None if isinstance(request, Restore) else request.header.watermark
    by = request.header.by
    return next_watermarks(reached, writer_of(by.user, by.identifier), own, users)


def _own_commit(by: Identity, id: int, time_millis: int) -> LastCommit | None:
    """Return this commit as later snapshots record it; None for a commit without an identifier."""
    return LastCommit(by.identifier, id, time_millis, by.digest) if by.counts else None


def _row_properties(
    request: CommitRequest, changes: FileChanges, retries: int, took_millis: int
) -> dict[str, str]:
    """Return the properties of added rows and cost, of expired or placed rows, and of a rescaling or a rollback."""
    rows = sum(message.expired_rows for message in changes.messages)
    expired = {EXPIRED_ROWS: str(rows)} if rows else {}
    match request:
        case Compact() if any(each.bucket_id.number == POSTPONED for each in changes.messages):
            special = {PLACED_ROWS: str(_rows(changes.adds))}
        case Rewrite(rescaled=int(count)):
            special = {RESCALED: str(count)}
        case Restore(target=Snapshot(id=id)):
            special = {RESTORED_FROM: str(id)}
        case _:
            special = {}
    return {
        ROWS: str(_rows(changes.adds)),
        FILES: str(len(changes.adds)),
        RETRIES: str(retries),
        COMMIT_MILLIS: str(took_millis),
        **expired,
        **special,
    }
