"""What is recorded of manifests and lists, compared with the files that are there. Pure (docs/decisions/0016).

    snapshot ── size of each list, rows ──► list ── size, files added and deleted, buckets, levels ──► manifest ── rows

and our own lists and manifests are named after their bytes (`paths.content_name`). One file in the place of another,
cut short or with a byte changed decodes often enough, to wrong rows that a compaction would make the table's. What a
writer left out is not compared. Raises DamagedError naming the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from widetable.commit.snapshots.manifest_cache import DecodedList, DecodedManifest
from widetable.errors import DamagedError
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.storage.paths import is_named_after

_ACTION: Final = "Restore the file, or go back to an older snapshot."


def check_name(path: str, data: bytes) -> None:
    """The bytes of a file under a name that says what they are."""
    if not is_named_after(path, data):
        raise DamagedError(
            path,
            found="other bytes than those it is named after",
            expected="the file as it was written",
            action=_ACTION,
        )


def check_size(path: str, held: DecodedList | DecodedManifest, recorded: int, where: str) -> None:
    """A list or manifest against its size in what names it, the snapshot or the list."""
    if held.file_bytes != recorded:
        raise _damaged(path, held.file_bytes, recorded, "bytes", where)


def check_manifest(path: str, held: DecodedManifest, meta: ManifestFileMeta) -> None:
    """A manifest's entries against what its list says of them. Its ranges may be wider than need be."""
    counts = held.added, held.deleted
    recorded = meta.num_added_files, meta.num_deleted_files
    if counts != recorded:
        raise _damaged(path, counts, recorded, "files added and deleted", "its list")
    ranges = (
        ("buckets", held.buckets, (meta.min_bucket, meta.max_bucket)),
        ("levels", held.levels, (meta.min_level, meta.max_level)),
    )
    for what, found, (low, high) in ranges:
        if low is None or high is None or found is None:
            continue
        if not low <= found[0] <= found[1] <= high:
            raise _damaged(path, found, (low, high), what, "its list")


def check_rows(
    snapshot: Snapshot, what: str, entries: Iterable[ManifestEntry], recorded: int | None
) -> None:
    """All live files of a snapshot, what it added and deleted, or its changelog, against its number of their rows."""
    found = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)
    if recorded is not None and found != recorded:
        raise DamagedError(
            f"manifests of snapshot {snapshot.id}",
            found=f"{counted(found, f'{what} row')} in the files that they name",
            expected=f"{recorded}, as the snapshot says",
            action="Restore the manifests or the snapshot file, or go back to an older snapshot.",
        )


def _damaged(path: str, found: object, recorded: object, what: str, where: str) -> DamagedError:
    return DamagedError(
        path,
        found=f"{found} {what}",
        expected=f"{recorded}, as {where} says",
        action=_ACTION,
    )
