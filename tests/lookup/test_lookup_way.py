"""Few keys of which most are missing are looked up in the index; all others are searched for."""

from __future__ import annotations

import pytest

from widetable_lookup.lookup_way import Way, choose


@pytest.mark.parametrize(
    ("keys", "rows", "hit_share", "way"),
    [
        (1000, 1_000_000, 0.0, Way.INDEX),
        (1000, 1_000_000, 0.2, Way.SEARCH),
        (1000, 1_000_000, 1.0, Way.SEARCH),
        (100_000, 1_000_000, 0.0, Way.SEARCH),
        (100_000, 1_000_000, 1.0, Way.SEARCH),
        (1, 1_000_000, 0.5, Way.SEARCH),
        (1, 1_000_000, 0.1, Way.INDEX),
        (1, 10, 0.0, Way.SEARCH),
        (50, 10, 0.0, Way.SEARCH),
        (0, 10, 0.0, Way.SEARCH),
    ],
)
def test_which_way(keys: int, rows: int, hit_share: float, way: Way) -> None:
    assert choose(keys, rows, hit_share, has_index=True) is way
    assert choose(keys, rows, hit_share, has_index=False) is Way.SEARCH
