"""Times of snapshots: what a commit takes over, and what a wrong one cannot hide."""

from __future__ import annotations

import random

import pytest

from tests.support.faults.turned_clock import MINUTE_MILLIS, YEAR_MILLIS
from widetable.commit.snapshots.snapshot_times import ahead, commit_millis, newest_at

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("previous", "expected"),
    [
        (None, NOW),
        (0, NOW),
        (NOW - 1, NOW),
        (NOW, NOW),
        (NOW + 1, NOW + 1),
        (NOW + MINUTE_MILLIS, NOW + MINUTE_MILLIS),
        (NOW + MINUTE_MILLIS + 1, NOW),
        (NOW + YEAR_MILLIS, NOW),
    ],
)
def test_a_commit_takes_over_the_time_before_it_up_to_a_minute(
    previous: int | None, expected: int
) -> None:
    assert commit_millis(NOW, previous) == expected


class Chain:
    """Times by id; ids may lack. Counts the looks."""

    def __init__(self, times: dict[int, int]) -> None:
        self.times = times
        self.looks = 0

    def time_of(self, id: int) -> int | None:
        self.looks += 1
        return self.times.get(id)

    def newest_at(self, millis: int) -> int | None:
        return newest_at(range(min(self.times), max(self.times) + 1), millis, self.time_of)

    def expected(self, millis: int) -> int | None:
        """By the definition, one by one."""
        return max((id for id, time in self.times.items() if time <= millis), default=None)


def test_times_that_ascend_are_bisected(rng: random.Random) -> None:
    for _ in range(200):
        first, count = rng.randrange(1, 9), rng.randrange(1, 40)
        times = sorted(rng.randrange(30) for _ in range(count))
        chain = Chain(dict(enumerate(times, start=first)))
        for millis in range(-1, 31):
            assert chain.newest_at(millis) == chain.expected(millis), (times, millis)


def test_a_wrong_time_hides_no_other_snapshot(rng: random.Random) -> None:
    """Clocks that ran ahead, never two in a row."""
    for _ in range(300):
        count = rng.randrange(1, 40)
        times = sorted(rng.randrange(30) for _ in range(count))
        at = rng.randrange(2)
        while at < count:
            times[at] += rng.choice((1, 5, 1000, YEAR_MILLIS))
            at += rng.randrange(2, 9)
        chain = Chain(dict(enumerate(times, start=1)))
        for millis in range(-1, 40):
            assert chain.newest_at(millis) == chain.expected(millis), (times, millis)


@pytest.mark.parametrize("wrong", [range(500, 600), range(900), range(3, 1000, 2)])
def test_many_wrong_ones_do_not_hide_the_newest(wrong: range) -> None:
    times = {id: NOW + id for id in range(1000)}
    for id in wrong:
        times[id] += YEAR_MILLIS
    chain = Chain(times)
    assert chain.newest_at(NOW + 10**6) == chain.expected(NOW + 10**6)
    assert chain.looks < 100


def test_a_thousand_snapshots_are_a_few_looks() -> None:
    chain = Chain({id: NOW + id for id in range(1, 100_001)})
    assert chain.newest_at(NOW + 33_333) == 33_333
    assert chain.looks < 250
    chain.looks = 0
    assert chain.newest_at(NOW + 10**6) == 100_000
    assert chain.looks == 1


def test_what_has_expired_is_passed() -> None:
    chain = Chain({id: id for id in range(6, 20)})
    assert newest_at(range(1, 20), 12, chain.time_of) == 12
    assert newest_at(range(1, 20), 5, chain.time_of) is None


def test_who_is_ahead_is_reported() -> None:
    minute = MINUTE_MILLIS
    times = [
        (1, NOW - 9 * minute),
        (2, NOW - 3 * minute),  # ahead of 3 by more than a minute
        (3, NOW - 7 * minute),
        (4, NOW - 2 * minute),  # ahead of 5, but by a minute only
        (5, NOW - 3 * minute),
        (6, NOW + 2 * minute),  # ahead of now
        (7, NOW + minute),
    ]
    assert ahead(times, NOW) == [2, 6]
    assert ahead([], NOW) == []
