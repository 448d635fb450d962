"""Which manifests of a snapshot are folded into one, and what is left of their entries. Pure.

Merging is never needed for correctness (Paimon `ManifestFileMerger`, format.md section 4); it keeps the list
short. Ours is geometric: the tail of the list is folded when it has `min_count` manifests and none of them
holds more than half of the entries, so each time an entry is written again its manifest has at least doubled:
O(log files) per entry over its life, and a list of about min_count + log2(entries) manifests. A manifest that
has reached `manifest.target-file-size`, or FULL_ENTRIES, is left alone, so the dearest fold is bounded. Those
are only rewritten when deletes make up half of the adds, and only by commits that delete files themselves.

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

# An entry takes about 0.1 ms to read and write again: a fold inside a commit stays within a few tenths of a second.
FULL_ENTRIES: Final = 2048


def choose_fold(
    metas: Sequence[ManifestFileMeta], *, target_size_bytes: int, min_count: int, reclaim: bool
) -> int | None:
    """From which manifest on the list is folded: these become one or more new ones in their place. None: none is.

    metas: oldest first. reclaim: full manifests may be rewritten to drop what was deleted.
    """
    if len(metas) < max(min_count, 2):
        return None
    added, deleted = sum(m.num_added_files for m in metas), sum(m.num_deleted_files for m in metas)
    if reclaim and 2 * deleted >= added:
        return 0
    # From the newest back: of the stretches that may be folded the longest one.
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
    """The entries of the folded manifests, oldest first, without the adds that a later one of them deletes, and
    without that delete.

    Deletes whose add is in an older manifest stay. Nothing else is checked: an append must not fail on what
    others wrote.
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
    """Consecutive parts of FULL_ENTRIES to twice as many; one part when there are fewer, none when there is nothing."""
    parts = max(1, len(entries) // FULL_ENTRIES)
    bounds = [len(entries) * part // parts for part in range(parts + 1)]
    return [entries[a:b] for a, b in pairwise(bounds) if b > a]


def _entries(meta: ManifestFileMeta) -> int:
    return meta.num_added_files + meta.num_deleted_files


def _is_full(meta: ManifestFileMeta, target_size_bytes: int) -> bool:
    return meta.file_size >= target_size_bytes or _entries(meta) >= FULL_ENTRIES
