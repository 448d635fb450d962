"""Which caches go: those that nobody used for too long, then the longest unused until the others fit. Pure.

In: the caches of a host and a budget. Out: an `Eviction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class HeldCache(NamedTuple):
    """path: its directory; last_used_millis: wall clock."""

    path: str
    disk_bytes: int
    last_used_millis: int
    retention_millis: int


class Eviction(NamedTuple):
    """remove: in the order in which they go. fits: whether the budget holds then.

    If it cannot hold whatever goes, only what has expired goes.
    """

    remove: tuple[HeldCache, ...]
    fits: bool


def evict(
    held: Sequence[HeldCache], other_bytes: int, budget_bytes: int, now_millis: int
) -> Eviction:
    """other_bytes: what must have room besides the caches: those that are being built, and what they will grow by.

    Three caches of 4 bytes, 3 more needed, a budget of 8, now 200, retention 50:

        last used     100        180       190
                      expired    goes      stays      fits
        9 needed      expired    stays     stays      does not fit
    """
    expired = [c for c in held if now_millis - c.last_used_millis > c.retention_millis]
    kept = sorted(set(held) - set(expired), key=lambda cache: (cache.last_used_millis, cache.path))
    if other_bytes > budget_bytes:
        return Eviction(tuple(expired), fits=False)
    excess_bytes = sum(cache.disk_bytes for cache in kept) + other_bytes - budget_bytes
    gone = []
    for cache in kept:
        if excess_bytes <= 0:
            break
        gone.append(cache)
        excess_bytes -= cache.disk_bytes
    return Eviction((*expired, *gone), fits=True)
