"""The base of a compaction's plan, and whether it is still valid at the commit.

A compaction of level 0 reads the rows of higher levels for before-images, and drops deletes without an older row. Both
results are wrong if another compaction has moved up rows that it did not see. Our compactions take all files of level 0
that they see, so the second one finds its files gone. Paimon's Java takes the files that its writer knows, and leaves
those that others wrote:

    ours    plans to take b of level 0; no row is above, so key 1 of b is new
    Java                      appends a, with key 1, and moves only a up to level 5; b stays
    ours    b is still live, but above level 0 are rows that were not seen ─► raised, plan again

`unseen_above` needs only the live entries. If it finds files, `raised_since` reads the deltas of the snapshots since
the plan, as a compaction of older levels looks the same in the live entries.

In: live entries, and the snapshots since the plan. Out: buckets and names. A compaction of older levels (0011) moves no
unseen rows up: its new files hold rows that were seen. Raises the errors of reading manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_COMPACT, Snapshot


@dataclass(frozen=True)
class PlanBase:
    """The base of a plan. snapshot_id: 0 for none. files: names of the live files that the plan saw."""

    snapshot_id: int
    files: frozenset[str]


def plan_base(snapshot: Snapshot | None, entries: Iterable[ManifestEntry]) -> PlanBase:
    """Return the base of a plan that sees these live entries of a snapshot (None for an empty table)."""
    names = frozenset(entry.file.file_name for entry in entries)
    return PlanBase(snapshot.id if snapshot else 0, names)


def unseen_above(
    planned: PlanBase, deletes: Iterable[ManifestEntry], live: Iterable[ManifestEntry]
) -> list[ManifestEntry]:
    """Return live files above level 0 that the plan did not see, in buckets whose level 0 it takes. Pure."""
    takes = {entry.bucket_id for entry in deletes if entry.file.level == 0}
    return [
        entry
        for entry in live
        if entry.file.level > 0
        and entry.bucket_id in takes
        and entry.file.file_name not in planned.files
    ]


def raised_since(
    planned: PlanBase, latest_id: int, snapshots: SnapshotStore, live_files: LiveFiles
) -> frozenset[BucketId] | None:
    """Return the buckets in which rows moved above level 0 after the plan; None (any bucket) if snapshots expired."""
    try:
        return frozenset(
            bucket
            for id in range(planned.snapshot_id + 1, latest_id + 1)
            for bucket in _raised_by(snapshots.load(id), live_files)
        )
    except NotFoundError:
        return None


def _raised_by(snapshot: Snapshot, live_files: LiveFiles) -> Iterator[BucketId]:
    if snapshot.commit_kind == COMMIT_KIND_APPEND:
        return
    for entry in live_files.delta_entries(snapshot):
        took_level_0 = entry.kind == DELETE and entry.file.level == 0
        if took_level_0 or snapshot.commit_kind != COMMIT_KIND_COMPACT:
            yield entry.bucket_id
