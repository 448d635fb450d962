"""Watermarks where not every snapshot says one: some clients write none, and others Long.MIN_VALUE, which is none.

A snapshot has all rows of those before it, so it has come to the watermark that the nearest snapshot at or before it
says. Ours carry it over. Pure, apart from what `load` reads: the snapshot of an id, None when it is not there.

    id              1    2    3    4    5
    says            -    10   -    -    20
    has come to     -    10   10   10   20        the first that has come to 10: 2, to 15: 5
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from widetable.format.snapshot import Snapshot

Load: TypeAlias = Callable[[int], Snapshot | None]


def carried_watermark(latest: Snapshot | None, writer: str, load: Load) -> int | None:
    """The watermark that the next snapshot begins with. writer: who carries watermarks over, so that behind its
    snapshots nothing is looked for: a table without watermarks costs no reads.
    """
    while latest is not None and latest.watermark is None and latest.writer_version != writer:
        latest = load(latest.id - 1) if latest.id > 1 else None
    return None if latest is None else latest.watermark


def larger(a: int | None, b: int | None) -> int | None:
    """Of watermarks, which never fall."""
    return max((value for value in (a, b) if value is not None), default=None)


def first_at_watermark(first: int, last: int, watermark: int, load: Load) -> int | None:
    """The oldest snapshot from `first` to `last` that has come to the watermark; None: none has.

    A binary search, in which snapshots that say none are passed towards older ones. Where another
    client's watermark fell behind a gap, the answer may be a younger snapshot than the oldest.
    """
    found, low, high = None, first, last
    while low <= high:
        middle = (low + high) // 2
        said = _said_from(low, middle, load)
        if said is not None and said[1] >= watermark:
            found = said[0]
            high = found - 1
        else:
            low = middle + 1
    return found


def _said_from(low: int, id: int, load: Load) -> tuple[int, int] | None:
    """The nearest snapshot from `id` down to `low` that says a watermark, and which."""
    for one in range(id, low - 1, -1):
        snapshot = load(one)
        if snapshot is not None and snapshot.watermark is not None:
            return one, snapshot.watermark
    return None
