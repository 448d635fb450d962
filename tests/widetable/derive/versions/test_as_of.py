"""Places of versions as of a time, against a loop over all versions of the key."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from widetable.derive.versions.as_of import last_until, settled

TIMES = st.lists(st.integers(-5, 5), max_size=7)


@given(st.lists(TIMES, max_size=4), st.lists(st.tuples(st.integers(0, 3), st.integers(-6, 6))))
def test_the_last_version_that_is_not_later(
    keys: list[list[int]], asked: list[tuple[int, int]]
) -> None:
    asked = [(key % len(keys), at) for key, at in asked] if keys else []
    starts = np.cumsum([0, *map(len, keys)])
    times = np.array([time for key in keys for time in key], np.int64)
    firsts = np.array([starts[key] for key, _ in asked], np.int64)
    counts = np.array([len(keys[key]) for key, _ in asked], np.int64)
    least = settled(times, firsts, counts)
    places = last_until(least, firsts, counts, np.array([at for _, at in asked], np.int64))
    expected = []
    for key, at in asked:
        early = [place for place, time in enumerate(keys[key]) if time <= at]
        expected.append(starts[key] + early[-1] if early else -1)
    assert places.tolist() == expected
