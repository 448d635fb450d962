"""Watermarks of snapshots that record none: some clients write none, and others Long.MIN_VALUE, which means none.

A snapshot has all rows of those before it, so it has reached the watermark of the nearest snapshot at or before it that
records one. Our snapshots carry it over. Pure, except that `load` returns the snapshot of an id, None if it is missing.

    id              1    2    3    4    5
    records         -    10   -    -    20
    has reached     -    10   10   10   20        the first that has reached 10: 2, 15: 5
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from widetable.format.snapshot import Snapshot

Load: TypeAlias = Callable[[int], Snapshot | None]


def carried_watermark(latest: Snapshot | None, writer: str, load: Load) -> int | None:
    """Return the watermark with which the next snapshot begins. writer: the client version that carries watermarks
    over; the search ends at its snapshots, so that a table without watermarks costs no reads.
    """
    while latest is not None and latest.watermark is None and latest.writer_version != writer:
        latest = load(latest.id - 1) if latest.id > 1 else None
    return None if latest is None else latest.watermark


def larger(a: int | None, b: int | None) -> int | None:
    """Return the larger of two watermarks, as watermarks never decrease; None if both are None."""
    return max((value for value in (a, b) if value is not None), default=None)


def first_at_watermark(first: int, last: int, watermark: int, load: Load) -> int | None:
    """Return the oldest snapshot from `first` to `last` that has reached the watermark; None: none has.

    A binary search that skips snapshots without a watermark towards older ones. If the watermark of another client
    decreased after a gap, the result may be a younger snapshot than the oldest.
    """
    oldest, low, high = None, first, last
    while low <= high:
        middle = (low + high) // 2
        recorded = _recorded_up_to(low, middle, load)
        if recorded is not None and recorded[1] >= watermark:
            oldest = recorded[0]
            high = oldest - 1
        else:
            low = middle + 1
    return oldest


def _recorded_up_to(low: int, id: int, load: Load) -> tuple[int, int] | None:
    """Return the nearest snapshot from `id` down to `low` that records a watermark, and the watermark."""
    for one in range(id, low - 1, -1):
        snapshot = load(one)
        if snapshot is not None and snapshot.watermark is not None:
            return one, snapshot.watermark
    return None
