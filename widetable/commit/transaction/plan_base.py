"""What a compaction was planned from, and whether that still holds when it commits.

Who takes files of level 0 reads the rows above them for before-images, and drops deletes that nothing lies under: both
are wrong once another compaction has brought rows up that it did not see. Ours take all of level 0 that they see, so
that the second one finds its files gone; Paimon's Java takes what its writer knows, and leaves
what others wrote:

    ours    plans to take b of level 0; nothing lies above, so key 1 of it was not there before
    Java                      appends a, with key 1, and brings a alone up to level 5; b stays
    ours    b is live still, but above level 0 are rows that were not seen ─► raised, plan again

`unseen_above` needs only what is live anyway. Where it finds something, `raised_since` reads the
deltas of the snapshots since the plan, as a compaction of older levels looks the same there.

In: live entries, and the snapshots since the plan. Out: buckets and names. A compaction of older levels (0011) brings
nothing up: its new files hold rows that were seen. Raises what reading manifests raises.
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
class PlannedFrom:
    """snapshot_id: 0 for none. files: names of the live files that were looked at."""

    snapshot_id: int
    files: frozenset[str]


def planned_from(snapshot: Snapshot | None, entries: Iterable[ManifestEntry]) -> PlannedFrom:
    """Of a snapshot, None for none, and the live entries of it that are looked at."""
    names = frozenset(entry.file.file_name for entry in entries)
    return PlannedFrom(snapshot.id if snapshot else 0, names)


def unseen_above(
    planned: PlannedFrom, deletes: Iterable[ManifestEntry], live: Iterable[ManifestEntry]
) -> list[ManifestEntry]:
    """Live files above level 0 that the plan did not see, of buckets whose level 0 it takes. Pure."""
    takes = {entry.bucket_id for entry in deletes if entry.file.level == 0}
    return [
        entry
        for entry in live
        if entry.file.level > 0
        and entry.bucket_id in takes
        and entry.file.file_name not in planned.files
    ]


def raised_since(
    planned: PlannedFrom, latest_id: int, snapshots: SnapshotStore, live_files: LiveFiles
) -> frozenset[BucketId] | None:
    """Buckets in which rows came above level 0 after the plan; None for any: it is not known any more."""
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
