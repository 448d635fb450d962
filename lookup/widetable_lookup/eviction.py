"""Which caches are removed: expired ones, then the least recently used ones until the others fit. Pure.

In: the caches of a host and a budget. Out: an `Eviction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class HeldCache(NamedTuple):
    """A cache on the disk. path: its directory; last_used_millis: wall clock."""

    path: str
    disk_bytes: int
    last_used_millis: int
    retention_millis: int


class Eviction(NamedTuple):
    """The decision. remove: the caches to remove, in this order. fits: whether the budget holds afterwards.

    If the budget cannot hold even without caches, only expired ones are removed.
    """

    remove: tuple[HeldCache, ...]
    fits: bool


def evict(
    caches: Sequence[HeldCache], other_bytes: int, budget_bytes: int, now_millis: int
) -> Eviction:
    """Choose the caches to remove. other_bytes: what needs room besides: caches that are being built, and their growth.

    Three caches of 4 bytes, 3 more needed, a budget of 8, now 200, retention 50:

        last used     100        180       190
                      expired    removed   stays      fits
        9 needed      expired    stays     stays      does not fit
    """
    expired = [c for c in caches if now_millis - c.last_used_millis > c.retention_millis]
    kept = sorted(
        set(caches) - set(expired), key=lambda cache: (cache.last_used_millis, cache.path)
    )
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
