"""The entries of a commit's delta manifest: what it adds and deletes, checked against what is live.

An append is what it is; a compaction must find all that it deletes, an overwrite deletes what is live in its scope.

    kind         live files that are looked at                      refused where
    APPEND       none; of its partitions where the number of        its writer counted the buckets otherwise
                 buckets was ever changed
    COMPACT      of the buckets that it touches                     an input is gone, key ranges would overlap,
                                                                    rows of files were deleted or brought up
    OVERWRITE    of its scope and partitions, or all                a named file is gone, or rows of it were
                                                                    deleted; one that is to stay is gone

So an append costs nothing that grows with the table. What stands in `conflicts` is pure; here it
is given its input. Raises ConflictError for one that does not fit the newest snapshot, and what
reading manifests raises.
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

_ACTIONS: Final = {
    COMMIT_KIND_APPEND: "Open the table again, and write what is not in it anew: its buckets were rescaled.",
    COMMIT_KIND_COMPACT: "Plan again on the newest snapshot.",
    COMMIT_KIND_OVERWRITE: "Plan again on the newest snapshot.",
}


class Deltas:
    """Of one table. Threads may share it."""

    def __init__(
        self, live_files: LiveFiles, schemas: SchemaStore, snapshots: SnapshotStore
    ) -> None:
        schema = schemas.latest()
        self.live_files = live_files
        self.schemas = schemas
        self.snapshots = snapshots
        self.key_types = [schema.field(name).type for name in schema.trimmed_primary_key]

    def of(self, asked: CommitRequest, latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """The entries for a snapshot after `latest`.

        Deletes come first, as a file that changes its level has both, under one name.
        """
        delta, live = self._changed(asked, latest)
        conflict = (
            _not_kept(asked, live)
            or conflicts.check(delta, live, self.key_types)
            or _marked_meanwhile(asked, live)
            or self._raised_meanwhile(asked, live, latest)
        )
        if conflict is not None:
            names = ", ".join(conflict.files[:5]) + (", .." if len(conflict.files) > 5 else "")
            raise ConflictError(
                self.live_files.paths.root,
                found=f"{conflict.detail}: {names}",
                expected=f"a commit of kind {asked.kind} that fits snapshot {latest.id if latest else 0}",
                action=_ACTIONS[asked.kind],
            )
        return delta

    def _changed(
        self, asked: CommitRequest, latest: Snapshot | None
    ) -> tuple[tuple[ManifestEntry, ...], list[ManifestEntry]]:
        """The delta, and the live files that it must fit: none for an append, which fits unless its writer has counted
        the buckets of a partition otherwise.
        """
        live_entries = self.live_files.live_entries
        if asked.kind == COMMIT_KIND_APPEND:
            is_rescaled = self.schemas.is_rescaled()
            return asked.adds, live_entries(latest, asked.partitions) if is_rescaled else []
        if asked.kind == COMMIT_KIND_COMPACT:
            return asked.entries, live_entries(latest, asked.partitions, asked.buckets)
        live = live_entries(latest, None if asked.scope is None else asked.scope | asked.partitions)
        return _overwriting(asked, live), live

    def _raised_meanwhile(
        self, asked: CommitRequest, live: Iterable[ManifestEntry], latest: Snapshot | None
    ) -> conflicts.Conflict | None:
        """Where files were not seen, the snapshots since the plan say whether their rows were."""
        planned = asked.planned
        unseen = unseen_above(planned, asked.deletes, live) if planned and latest else []
        if not (unseen and planned and latest):
            return None
        raised = raised_since(planned, latest.id, self.snapshots, self.live_files)
        names = tuple(e.file.file_name for e in unseen if raised is None or e.bucket_id in raised)
        detail = "rows came above level 0 that a compaction of level 0 has not seen"
        return conflicts.Conflict("raised", names, detail) if names else None


def _overwriting(asked: CommitRequest, live: Iterable[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """What an overwrite changes: the live files of its scope go, as do those that it names; its new files come.

    By identity, so a file that is in the scope and named goes once. One that is named and not live
    is kept in the delta: `conflicts` finds that it is gone.
    """
    deletes = {
        entry.identity: ManifestEntry(
            DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file
        )
        for entry in live
        if (asked.scope is None or entry.partition in asked.scope)
        and entry.identity not in asked.keeps
    }
    deletes |= {entry.identity: entry for entry in asked.deletes}
    return (*deletes.values(), *asked.adds)


def _not_kept(asked: CommitRequest, live: Iterable[ManifestEntry]) -> conflicts.Conflict | None:
    """Files that are to stay must be there."""
    gone = asked.keeps - {entry.identity for entry in live} if asked.keeps else frozenset()
    names = tuple(sorted(identity[3] for identity in gone))
    return (
        conflicts.Conflict("gone", names, "files that stay are not live any more") if gone else None
    )


def _marked_meanwhile(
    asked: CommitRequest, live: Iterable[ManifestEntry]
) -> conflicts.Conflict | None:
    """Who names files that go has read all of their deletion vectors; a compaction adds to those of files that stay."""
    if asked.kind == COMMIT_KIND_APPEND:
        return None
    seen = {entry.file.file_name: entry.file.deleted for entry in asked.deletes}
    now = {entry.file.file_name: entry.file.deleted for entry in live}
    gone: set[str] = set()
    if asked.kind == COMMIT_KIND_COMPACT:
        marked = [file for message in asked.messages for file in message.marked_files]
        seen |= {file.file_name: file.deleted for file in marked}
        # A file without a vector, too: the rows that it was to lose are in the file that replaced it.
        gone = {file.file_name for file in marked if file.file_name not in now}
    changed = {name for name, deleted in seen.items() if now.get(name) != deleted}
    names = tuple(sorted(changed | gone))
    detail = "rows of files were deleted, or files that were to lose rows went meanwhile"
    return conflicts.Conflict("marked", names, detail) if names else None
