"""Checks whether a commit that deletes files, or adds them above level 0, still fits the newest snapshot. Pure.

Source: Paimon `ConflictDetection`; format.md section 11.4. In: the entries of the commit and the live ones in the
buckets and partitions that it touches. Out: None, or the first Conflict. Raises DamagedError for keys that do not
decode.

    twice      the commit has an identity twice
    gone       a file to delete is not live
    present    a file to add is live already
    marked     rows of a file were deleted since it was read, or it is gone (commit_delta)
    raised     rows moved above level 0 that a compaction of level 0 has not seen (commit_delta)
    buckets    files of one partition would have different numbers of total buckets
    overlap    two files of one level (1 or higher) of a bucket would have overlapping key ranges

    live                delta              conflict
    a, level 0          - c                gone: c
    x, level 3, 0..9    + y, level 3, 9..20    overlap: x, y, as both may have key 9

Two compactions of one bucket that start from the same snapshot mostly share an input, so the second one finds it gone.
If they share none, their outputs may still overlap on a level, which only `overlap` detects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from widetable.format.binary_row import decode_row
from widetable.format.bucket_id import BucketId
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.format.plain_value import row_order
from widetable.messages.counted import counted
from widetable.schema.types import DataType
from widetable.storage.paths import POSTPONED


@dataclass(frozen=True)
class Conflict:
    """A conflict. kind: one of the words above. files: names of the data files concerned. detail: for messages."""

    kind: str
    files: tuple[str, ...]
    detail: str


def check(
    delta: Sequence[ManifestEntry], live: Sequence[ManifestEntry], key_types: Sequence[DataType]
) -> Conflict | None:
    """Return the first conflict in the order of the list above, or None.

    delta: of the commit. live: ADD entries, at least all of the buckets that `delta` touches. key_types: of the trimmed
    primary key. For an append `live` may be empty: level 0 has no order of keys, and an append deletes nothing.
    """
    present = {entry.identity: entry for entry in live}
    counts = Counter(entry.identity for entry in delta)
    twice = (e for e in delta if counts[e.identity] > 1)
    gone = (e for e in delta if e.kind == DELETE and e.identity not in present)
    added = (e for e in delta if e.kind == ADD and e.identity in present)
    for kind, entries, detail in (
        ("twice", twice, "one commit names a file of one level twice"),
        ("gone", gone, "files to be replaced are no longer live"),
        ("present", added, "files to be added are live already"),
    ):
        if files := tuple(sorted({entry.file.file_name for entry in entries})):
            return Conflict(kind, files, detail)
    for entry in delta:
        if entry.kind == DELETE:
            del present[entry.identity]
    after = [*present.values(), *(entry for entry in delta if entry.kind == ADD)]
    return _buckets(delta, after) or _overlap(delta, after, key_types)


def _buckets(delta: Sequence[ManifestEntry], after: Sequence[ManifestEntry]) -> Conflict | None:
    """Return a conflict if a partition would have two numbers of buckets, and so a key could be in two buckets. Files
    of postponed rows have none yet.
    """
    totals: dict[bytes, int] = {}
    for entry in delta:
        if entry.kind == ADD and entry.bucket != POSTPONED:
            totals.setdefault(entry.partition, entry.total_buckets)
    for entry in after:
        expected = totals.get(entry.partition)
        is_other = entry.bucket != POSTPONED and entry.total_buckets != expected
        if expected is not None and is_other:
            detail = f"{counted(entry.total_buckets, 'bucket')} in a partition that gets files of {expected}"
            return Conflict("buckets", (entry.file.file_name,), detail)
    return None


def _overlap(
    delta: Sequence[ManifestEntry], after: Sequence[ManifestEntry], key_types: Sequence[DataType]
) -> Conflict | None:
    """Return a conflict if key ranges overlap on a level that the commit adds to; other levels do not change."""
    touched = {_run(entry) for entry in delta if entry.kind == ADD and entry.file.level > 0}
    runs: dict[tuple[BucketId, int], list[ManifestEntry]] = {}
    for entry in after:
        if _run(entry) in touched:
            runs.setdefault(_run(entry), []).append(entry)
    order = row_order(key_types)

    def bounds(entry: ManifestEntry) -> tuple[Any, Any]:
        name, file = entry.file.file_name, entry.file
        low, high = (decode_row(key, key_types, name) for key in (file.min_key, file.max_key))
        return order(low), order(high)

    for (bucket, level), entries in runs.items():
        ranges = sorted(
            ((bounds(entry), entry.file.file_name) for entry in entries), key=lambda range: range[0]
        )
        for ((_, high), name), ((low, _), following) in pairwise(ranges):
            if low <= high:
                detail = f"key ranges overlap at level {level} of bucket {bucket.number}"
                return Conflict("overlap", (name, following), detail)
    return None


def _run(entry: ManifestEntry) -> tuple[BucketId, int]:
    """Return bucket and level: above level 0 the files of a bucket at one level are one sorted run."""
    return entry.bucket_id, entry.file.level
