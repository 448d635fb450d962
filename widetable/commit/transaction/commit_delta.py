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
from typing import Final

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.transaction import conflicts
from widetable.commit.transaction.commit_request import CommitRequest
from widetable.commit.transaction.plan_base import raised_since, unseen_above
from widetable.errors import ConflictError
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.format.snapshot import (
    COMMIT_KIND_APPEND,
    COMMIT_KIND_COMPACT,
    COMMIT_KIND_OVERWRITE,
    Snapshot,
)
from widetable.messages.error_code import ErrorCode

_ACTIONS: Final = {
    COMMIT_KIND_APPEND: "Open the table again, and repeat the writes that failed: its buckets were rescaled.",
    COMMIT_KIND_COMPACT: "Plan again on the newest snapshot.",
    COMMIT_KIND_OVERWRITE: "Plan again on the newest snapshot.",
}


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

    def of(self, request: CommitRequest, latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """Return the entries of the commit's delta after `latest`.

        Deletes come first, as a file that changes its level has a DELETE and an ADD under one name.
        """
        delta, live = self._changed(request, latest)
        conflict = (
            _missing_kept(request, live)
            or conflicts.check(delta, live, self.key_types)
            or _marked_meanwhile(request, live)
            or self._raised_meanwhile(request, live, latest)
        )
        if conflict is not None:
            names = ", ".join(conflict.files[:5]) + (", .." if len(conflict.files) > 5 else "")
            raise ConflictError(
                self.live_files.paths.root,
                found=f"{conflict.detail}: {names}",
                expected=f"a commit of kind {request.kind} that fits snapshot {latest.id if latest else 0}",
                action=_ACTIONS[request.kind],
                code=ErrorCode.FILES_CHANGED,
            )
        return delta

    def _changed(
        self, request: CommitRequest, latest: Snapshot | None
    ) -> tuple[tuple[ManifestEntry, ...], list[ManifestEntry]]:
        """Return the delta, and the live files that it must fit: none for an append, which fits unless its writer used
        another number of buckets for a partition.
        """
        live_entries = self.live_files.live_entries
        if request.kind == COMMIT_KIND_APPEND:
            is_rescaled = self.schemas.is_rescaled()
            return request.adds, live_entries(latest, request.partitions) if is_rescaled else []
        if request.kind == COMMIT_KIND_COMPACT:
            return request.entries, live_entries(latest, request.partitions, request.buckets)
        live = live_entries(
            latest, None if request.scope is None else request.scope | request.partitions
        )
        return _overwrite_delta(request, live), live

    def _raised_meanwhile(
        self, request: CommitRequest, live: Iterable[ManifestEntry], latest: Snapshot | None
    ) -> conflicts.Conflict | None:
        """Check files that the compaction's plan did not see: snapshots since then may have moved unseen rows up."""
        planned = request.planned
        unseen = unseen_above(planned, request.deletes, live) if planned and latest else []
        if not (unseen and planned and latest):
            return None
        raised = raised_since(planned, latest.id, self.snapshots, self.live_files)
        names = tuple(e.file.file_name for e in unseen if raised is None or e.bucket_id in raised)
        detail = "rows moved above level 0 that a compaction of level 0 has not seen"
        return conflicts.Conflict("raised", names, detail) if names else None


def _overwrite_delta(
    request: CommitRequest, live: Iterable[ManifestEntry]
) -> tuple[ManifestEntry, ...]:
    """Return the delta of an overwrite: it deletes the live files of its scope and those that it names, and adds its
    new files.

    Deletes are unique by identity, so a file that is in the scope and named is deleted once. A named file that is not
    live stays in the delta: `conflicts` then reports that it is gone.
    """
    deletes = {
        entry.identity: ManifestEntry(
            DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file
        )
        for entry in live
        if (request.scope is None or entry.partition in request.scope)
        and entry.identity not in request.keeps
    }
    deletes |= {entry.identity: entry for entry in request.deletes}
    return (*deletes.values(), *request.adds)


def _missing_kept(
    request: CommitRequest, live: Iterable[ManifestEntry]
) -> conflicts.Conflict | None:
    """Return a conflict if files that must stay are not live."""
    gone = request.keeps - {entry.identity for entry in live} if request.keeps else frozenset()
    names = tuple(sorted(identity[3] for identity in gone))
    return (
        conflicts.Conflict("gone", names, "files that must stay are no longer live")
        if gone
        else None
    )


def _marked_meanwhile(
    request: CommitRequest, live: Iterable[ManifestEntry]
) -> conflicts.Conflict | None:
    """Return a conflict if rows were deleted that the commit did not see.

    A commit that deletes files must have read all of their deletion vectors; a compaction also extends the vectors of
    files that stay.
    """
    if request.kind == COMMIT_KIND_APPEND:
        return None
    seen = {entry.file.file_name: entry.file.deleted for entry in request.deletes}
    now = {entry.file.file_name: entry.file.deleted for entry in live}
    gone: set[str] = set()
    if request.kind == COMMIT_KIND_COMPACT:
        marked = [file for message in request.messages for file in message.marked_files]
        seen |= {file.file_name: file.deleted for file in marked}
        # Also a file without a vector: the rows that it should lose are in the file that replaced it.
        gone = {file.file_name for file in marked if file.file_name not in now}
    changed = {name for name, deleted in seen.items() if now.get(name) != deleted}
    names = tuple(sorted(changed | gone))
    detail = "rows of files were deleted, or files that should lose rows were removed meanwhile"
    return conflicts.Conflict("marked", names, detail) if names else None
