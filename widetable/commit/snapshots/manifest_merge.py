"""Merging of manifests: which manifests of a snapshot are folded into one, and which entries remain. Pure.

Merging is never needed for correctness (Paimon `ManifestFileMerger`, format.md section 4); it keeps the list short.
Ours is geometric: the tail of the list is folded when it has `min_count` manifests and none of them holds more than
half of the entries. So each time an entry is rewritten its manifest has at least doubled: O(log files) per entry over
its life, and a list of about min_count + log2(entries) manifests. A manifest that has reached
`manifest.target-file-size`, or FULL_ENTRIES, is not folded, so the cost of a fold is bounded. Such manifests are
rewritten only when deletes make up half of the adds, and only by commits that delete files themselves.

    min_count 3, one entry a commit     entries of each manifest, before ─► after
    commit 3                            1 1 1       ─► 3
    commit 5                            3 1 1       ─► 3 1 1        3 is more than half
    commit 6                            3 1 1 1     ─► 6
    commit 9                            6 1 1 1     ─► 6 3          6 is more than half
    commit 12                           6 3 1 1 1   ─► 12
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from widetable.format.manifest_entry import ADD, Identity, ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta

# Rewriting an entry takes about 0.1 ms: a fold inside a commit stays within a few tenths of a second.
FULL_ENTRIES: Final = 2048


def choose_fold(
    metas: Sequence[ManifestFileMeta], *, target_size_bytes: int, min_count: int, reclaim: bool
) -> int | None:
    """Return the index from which the list is folded: new manifests replace the ones from there on. None: no fold.

    metas: oldest first. reclaim: full manifests may be rewritten to drop deleted entries.
    """
    if len(metas) < max(min_count, 2):
        return None
    added, deleted = sum(m.num_added_files for m in metas), sum(m.num_deleted_files for m in metas)
    if reclaim and 2 * deleted >= added:
        return 0
    # Go back from the newest manifest and choose the longest tail that may be folded.
    start, entries, largest, at = None, 0, 0, len(metas)
    for meta in reversed(metas):
        if _is_full(meta, target_size_bytes):
            break
        at -= 1
        entries += _entries(meta)
        largest = max(largest, _entries(meta))
        if len(metas) - at >= min_count and entries >= 2 * largest:
            start = at
    return start


def folded(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries of the folded manifests, oldest first, without pairs of an ADD and a later DELETE of it.

    Deletes whose add is in an older manifest stay. Nothing else is checked: an append must not fail because of entries
    that others wrote.
    """
    left: dict[int, ManifestEntry] = {}
    added_at: dict[Identity, int] = {}
    for number, entry in enumerate(entries):
        if entry.kind == ADD:
            added_at[entry.identity] = number
            left[number] = entry
        elif (cancelled := added_at.pop(entry.identity, None)) is not None:
            del left[cancelled]
        else:
            left[number] = entry
    return list(left.values())


def split_evenly(entries: Sequence[ManifestEntry]) -> list[Sequence[ManifestEntry]]:
    """Split into consecutive parts of FULL_ENTRIES to twice as many entries; fewer entries make at most one part."""
    parts = max(1, len(entries) // FULL_ENTRIES)
    bounds = [len(entries) * part // parts for part in range(parts + 1)]
    return [entries[a:b] for a, b in pairwise(bounds) if b > a]


def _entries(meta: ManifestFileMeta) -> int:
    return meta.num_added_files + meta.num_deleted_files


def _is_full(meta: ManifestFileMeta, target_size_bytes: int) -> bool:
    return meta.file_size >= target_size_bytes or _entries(meta) >= FULL_ENTRIES
