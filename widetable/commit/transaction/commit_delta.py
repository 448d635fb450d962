"""The entries of a commit's delta manifest: the files that it adds and deletes, checked against the live files.

An append needs no check; a compaction must find all files that it deletes; an overwrite deletes the live files in its
scope.

    kind         live files that are checked                        refused if
    APPEND       none; those of its partitions if the number        its writer used another number of buckets
                 of buckets was ever changed
    COMPACT      of the buckets that it touches                     an input is gone, key ranges would overlap,
                                                                    rows of files were deleted or moved up
    OVERWRITE    of its scope and partitions, or all                a named file is gone, or rows of it were
                                                                    deleted; a file that must stay is gone

So the cost of an append does not grow with the table. `conflicts` is pure; this module reads its input. Raises
ConflictError for a commit that does not fit the newest snapshot, and the errors of reading manifests.
"""

from __future__ import annotations

from collections.abc import Iterable

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.transaction import conflicts
from widetable.commit.transaction.commit_request import (
    Append,
    CommitRequest,
    Compact,
    FileChanges,
    Overwrite,
    Restore,
    Rewrite,
)
from widetable.commit.transaction.plan_base import raised_since, unseen_above
from widetable.errors import ConflictError
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.format.manifest_entry import Identity as FileIdentity
from widetable.format.snapshot import Snapshot
from widetable.messages.error_code import ErrorCode


class Deltas:
    """Makes the deltas of commits to one table. Threads may share it."""

    def __init__(
        self, live_files: LiveFiles, schemas: SchemaStore, snapshots: SnapshotStore
    ) -> None:
        schema = schemas.latest()
        self.live_files = live_files
        self.schemas = schemas
        self.snapshots = snapshots
        self.key_types = [schema.field(name).type for name in schema.trimmed_primary_key]

    def of(
        self, request: CommitRequest, changes: FileChanges, latest: Snapshot | None
    ) -> tuple[ManifestEntry, ...]:
        """Return the entries of the commit's delta after `latest`.

        Deletes come first, as a file that changes its level has a DELETE and an ADD under one name.
        """
        delta, live = self._changed(request, changes, latest)
        conflict = (
            _missing_kept(request, live)
            or conflicts.check(delta, live, self.key_types)
            or _marked_meanwhile(request, changes, live)
            or self._raised_meanwhile(request, live, latest)
        )
        if conflict is not None:
            action = "Plan again on the newest snapshot."
            if isinstance(request, Append):
                action = "Open the table again, and repeat the writes that failed: its buckets were rescaled."
            names = ", ".join(conflict.files[:5]) + (", .." if len(conflict.files) > 5 else "")
            raise ConflictError(
                self.live_files.paths.root,
                found=f"{conflict.detail}: {names}",
                expected=f"a commit of kind {request.kind} that fits snapshot {latest.id if latest else 0}",
                action=action,
                code=ErrorCode.FILES_CHANGED,
            )
        return delta

    def _changed(
        self, request: CommitRequest, changes: FileChanges, latest: Snapshot | None
    ) -> tuple[tuple[ManifestEntry, ...], list[ManifestEntry]]:
        """Return the delta, and the live files that it must fit: none for an append, which fits unless its writer used
        another number of buckets for a partition.
        """
        live_entries = self.live_files.live_entries
        scope: frozenset[bytes] | None = frozenset()
        stays: frozenset[FileIdentity] = frozenset()
        match request:
            case Append():
                is_rescaled = self.schemas.is_rescaled()
                return changes.adds, live_entries(latest, changes.partitions) if is_rescaled else []
            case Compact():
                return changes.entries, live_entries(latest, changes.partitions, changes.buckets)
            case Overwrite():
                scope = request.scope
            case Restore():
                scope, stays = None, request.keeps
        live = live_entries(latest, None if scope is None else scope | changes.partitions)
        replaced = (
            entry
            for entry in live
            if (scope is None or entry.partition in scope) and entry.identity not in stays
        )
        return _overwrite_delta(changes, replaced), live

    def _raised_meanwhile(
        self, request: CommitRequest, live: Iterable[ManifestEntry], latest: Snapshot | None
    ) -> conflicts.Conflict | None:
        """Check files that the compaction's plan did not see: snapshots since then may have moved unseen rows up."""
        planned = request.planned if isinstance(request, Compact) else None
        if planned is None or latest is None:
            return None
        unseen = unseen_above(planned, request.changes.deletes, live)
        if not unseen:
            return None
        raised = raised_since(planned, latest.id, self.snapshots, self.live_files)
        names = tuple(e.file.file_name for e in unseen if raised is None or e.bucket_id in raised)
        detail = "rows moved above level 0 that a compaction of level 0 has not seen"
        return conflicts.Conflict("raised", names, detail) if names else None


def _overwrite_delta(
    changes: FileChanges, replaced: Iterable[ManifestEntry]
) -> tuple[ManifestEntry, ...]:
    """Return the delta of an overwrite: it deletes the live files that it replaces and those that it names, and adds
    its new files.

    Deletes are unique by identity, so a file that is replaced and named is deleted once. A named file that is not live
    stays in the delta: `conflicts` then reports that it is gone.
    """
    deletes = {
        entry.identity: ManifestEntry(
            DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file
        )
        for entry in replaced
    }
    deletes |= {entry.identity: entry for entry in changes.deletes}
    return (*deletes.values(), *changes.adds)


def _missing_kept(
    request: CommitRequest, live: Iterable[ManifestEntry]
) -> conflicts.Conflict | None:
    """Return a conflict if files that must stay are not live."""
    keeps = request.keeps if isinstance(request, Restore) else frozenset()
    gone = keeps and keeps - {entry.identity for entry in live}
    names = tuple(sorted(identity[3] for identity in gone))
    detail = "files that must stay are no longer live"
    return conflicts.Conflict("gone", names, detail) if gone else None


def _marked_meanwhile(
    request: CommitRequest, changes: FileChanges, live: Iterable[ManifestEntry]
) -> conflicts.Conflict | None:
    """Return a conflict if rows were deleted that the commit did not see.

    A commit that deletes files must have read all of their deletion vectors; a compaction, and a delete in an append
    table, also extend the vectors of files that stay.
    """
    messages = changes.messages if isinstance(request, Compact | Rewrite) else ()
    marked = [file for message in messages for file in message.marked_files]
    deleted = (entry.file for entry in changes.deletes)
    seen = {file.file_name: file.deleted for file in (*deleted, *marked)}
    now = {entry.file.file_name: entry.file.deleted for entry in live}
    # Also a file without a vector: the rows that it should lose are in the file that replaced it.
    gone = {file.file_name for file in marked if file.file_name not in now}
    changed = {name for name, deleted in seen.items() if now.get(name) != deleted}
    names = tuple(sorted(changed | gone))
    detail = "rows of files were deleted, or files that should lose rows were removed meanwhile"
    return conflicts.Conflict("marked", names, detail) if names else None
