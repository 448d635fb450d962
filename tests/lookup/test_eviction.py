"""Expired caches go first, then the longest unused, and nothing goes in vain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable_lookup.eviction import HeldCache, evict

_HELD = [
    HeldCache("a", 10, last_used_millis=300, retention_millis=1000),
    HeldCache("b", 10, last_used_millis=100, retention_millis=1000),
    HeldCache("c", 10, last_used_millis=200, retention_millis=1000),
]


@pytest.mark.parametrize(
    ("budget_bytes", "other_bytes", "now_millis", "removed", "fits"),
    [
        (30, 0, 400, "", True),
        (29, 0, 400, "b", True),
        (30, 10, 400, "b", True),
        (30, 11, 400, "bc", True),
        (10, 10, 400, "bca", True),
        (10, 11, 400, "", False),
        (30, 0, 1150, "b", True),
        (30, 0, 1250, "bc", True),
        (10, 11, 1150, "b", False),
        (30, 10, 1150, "b", True),
        (30, 11, 1150, "bc", True),
    ],
)
def test_who_goes(
    budget_bytes: int, other_bytes: int, now_millis: int, removed: str, fits: bool
) -> None:
    choice = evict(_HELD, other_bytes, budget_bytes, now_millis)
    assert "".join(cache.path for cache in choice.remove) == removed
    assert choice.fits == fits


_CACHES = st.builds(
    HeldCache,
    path=st.text("abc", min_size=1, max_size=4),
    disk_bytes=st.integers(0, 50),
    last_used_millis=st.integers(0, 100),
    retention_millis=st.integers(0, 100),
)


@given(st.sets(_CACHES, max_size=8), st.integers(0, 80), st.integers(0, 200), st.integers(0, 200))
def test_the_budget_holds_and_the_last_to_go_was_needed(
    held: set[HeldCache], other_bytes: int, budget_bytes: int, now_millis: int
) -> None:
    choice = evict(list(held), other_bytes, budget_bytes, now_millis)
    kept = held - set(choice.remove)
    used = sum(cache.disk_bytes for cache in kept) + other_bytes
    assert choice.fits == (other_bytes <= budget_bytes)
    assert not choice.fits or used <= budget_bytes
    expired = {c for c in held if now_millis - c.last_used_millis > c.retention_millis}
    assert expired <= set(choice.remove)
    gone = [cache for cache in choice.remove if cache not in expired]
    assert all(c.last_used_millis <= k.last_used_millis for c in gone for k in kept)
    if gone:
        assert used + gone[-1].disk_bytes > budget_bytes
