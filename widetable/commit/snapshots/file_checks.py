"""Checks of manifests and lists against what is recorded of them. Pure (docs/decisions/0016).

    snapshot ── size of each list, rows ──► list ── size, files added and deleted, buckets, levels ──► manifest ── rows

and our own lists and manifests are named after their bytes (`paths.content_name`). A file in the place of another, a
truncated one or one with a changed byte can often be decoded, to wrong rows that a compaction would store. A value that
the writer left out is not checked. Raises DamagedError with the name of the file.
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
from widetable.messages.error_code import ErrorCode
from widetable.storage.paths import is_named_after

_ACTION: Final = "Restore the file, or go back to an older snapshot."


def check_name(path: str, data: bytes) -> None:
    """Check that the bytes of a file match its name, if it is named after them."""
    if not is_named_after(path, data):
        raise DamagedError(
            path,
            found="other bytes than those it is named after",
            expected="the file as it was written",
            action=_ACTION,
            code=ErrorCode.METADATA_DAMAGED,
        )


def check_size(
    path: str, decoded: DecodedList | DecodedManifest, recorded: int, where: str
) -> None:
    """Check the size of a list or manifest against the size in the snapshot or list that names it."""
    if decoded.file_bytes != recorded:
        raise _damaged(path, decoded.file_bytes, recorded, "bytes", where)


def check_manifest(path: str, decoded: DecodedManifest, meta: ManifestFileMeta) -> None:
    """Check a manifest's entries against its line in the list, whose ranges may be wider than necessary."""
    counts = decoded.added, decoded.deleted
    recorded = meta.num_added_files, meta.num_deleted_files
    if counts != recorded:
        raise _damaged(path, counts, recorded, "files added and deleted", "its list")
    ranges = (
        ("buckets", decoded.buckets, (meta.min_bucket, meta.max_bucket)),
        ("levels", decoded.levels, (meta.min_level, meta.max_level)),
    )
    for what, actual, (low, high) in ranges:
        if low is None or high is None or actual is None:
            continue
        if not low <= actual[0] <= actual[1] <= high:
            raise _damaged(path, actual, (low, high), what, "its list")


def check_rows(
    snapshot: Snapshot, what: str, entries: Iterable[ManifestEntry], recorded: int | None
) -> None:
    """Check the rows of a snapshot's live files, its delta or its changelog against the number that it records."""
    rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)
    if recorded is not None and rows != recorded:
        raise DamagedError(
            f"manifests of snapshot {snapshot.id}",
            found=f"{counted(rows, f'{what} row')} in the files that they name",
            expected=f"{recorded}, as the snapshot says",
            action="Restore the manifests or the snapshot file, or go back to an older snapshot.",
            code=ErrorCode.METADATA_DAMAGED,
        )


def _damaged(path: str, actual: object, recorded: object, what: str, where: str) -> DamagedError:
    return DamagedError(
        path,
        found=f"{actual} {what}",
        expected=f"{recorded}, as {where} says",
        action=_ACTION,
        code=ErrorCode.METADATA_DAMAGED,
    )
