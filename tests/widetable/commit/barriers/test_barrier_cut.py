"""At which barriers compactions are cut, and that readers and compactors that are behind still meet."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from widetable.commit.barriers.barrier_cut import (
    Level0File,
    cuts,
    roundest,
    staying,
)
from widetable.commit.barriers.barrier_state import BarrierState
from widetable.merge.order_dependence import Values, depends_on_order

ORDERED = frozenset({1, 2, 3})


def state(frontier: int, waiting: int | None, moved: int = 0) -> BarrierState:
    return BarrierState(10, frontier, frontier, {}, moved, waiting)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (state(50, 10), [40, 50]),
        (state(70, 30), [40, 60, 70]),
        (state(50, None), []),
        (state(0, 10), []),
        (state(50, 60), []),
        (state(50, 20, moved=40), [40, 50]),
        (state(50, 50, moved=40), [50]),
        (state(50, 10, moved=60), []),
        (state(10, 10), [10]),
        (state(20, 0), [20]),
        # Of a table that came under barriers later: no compaction stops before its first one.
        (replace(state(50, 10, moved=10), since=3, first=50), [50]),
    ],
)
def test_cuts_are_the_roundest_complete_barriers(before: BarrierState, expected: list[int]) -> None:
    assert cuts(before) == expected


def test_the_roundest_barrier_has_the_most_trailing_zero_bits(rng: random.Random) -> None:
    for _ in range(2000):
        interval = rng.choice((1, 10, 7_000))
        least = rng.randint(1, 300)
        most = least + rng.choice((0, 1, 3, rng.randint(0, 300)))
        zeros = {
            unit: len(bin(unit)) - len(bin(unit).rstrip("0")) for unit in range(least, most + 1)
        }
        [only] = [unit for unit in zeros if zeros[unit] == max(zeros.values())]
        assert roundest(least * interval, most * interval, interval) == only * interval


def test_who_is_behind_by_few_barriers_meets_others_often(rng: random.Random) -> None:
    """Nobody more than D behind: all have a barrier in common at least every 2^ceil(log2(D + 1))."""
    behind, often = 5, 8
    stops: list[set[int]] = []
    for _ in range(4):
        at, found = 0, set()
        for newest in range(1, 400):
            if newest - at >= rng.randint(1, behind):
                at = roundest(at + 1, newest, 1)
                found.add(at)
        stops.append(found)
    common = sorted(set.intersection(*stops))
    assert all(b - a <= often for a, b in pairwise(common))
    assert len(common) > 300 // often


def file(name: str, label: int, at: int, *columns: int, deletes: bool = False) -> Level0File:
    """Without columns: of all."""
    return Level0File(name, label, Values(frozenset(columns) or None, deletes), at, at + 1)


@pytest.mark.parametrize(
    ("files", "mixes", "left"),
    [
        ([file("x", 10, 1, 1), file("y", 10, 3, 2)], True, ""),
        ([file("x", 20, 1, 1), file("y", 10, 3, 2)], True, "x"),
        ([file("x", 20, 1, 1), file("y", 10, 3, 1, 2)], True, "xy"),
        ([file("x", 20, 1, 1), file("y", 10, 3)], True, "xy"),
        ([file("x", 20, 1), file("y", 10, 3, 2)], True, "xy"),
        ([file("x", 20, 1, 1), file("y", 10, 3, 2, deletes=True)], True, "xy"),
        ([file("x", 20, 1, 1, deletes=True), file("y", 10, 3, 2)], True, "xy"),
        ([file("x", 20, 1, 1), file("y", 10, 3, 2)], False, "xy"),
        ([file("x", 20, 3, 1), file("y", 10, 1, 1)], False, "x"),
        ([file("x", 20, 1, 1), file("y", 10, 3, 1, 2), file("z", 10, 5, 2)], True, "xyz"),
        ([file("x", 20, 3, 1), file("y", 10, 3, 1), file("z", 10, 1, 1)], True, "xy"),
    ],
)
def test_what_follows_on_a_file_that_stays_stays(
    files: list[Level0File], mixes: bool, left: str
) -> None:
    ordered = ORDERED if mixes else None
    assert staying(files, 10, ordered=ordered) == set(left)
    assert staying(files[::-1], 10, ordered=ordered) == set(left)


def test_nothing_is_taken_that_depends_on_what_stays(rng: random.Random) -> None:
    """Also where the numbers of several writers overlap: a file that stays may let an earlier one stay."""
    for _ in range(2000):
        files = [
            Level0File(str(n), rng.choice((10, 20)), one, first, first + rng.randint(1, 150))
            for n in range(rng.randint(1, 6))
            for one in [Values(frozenset(rng.sample((1, 2, 3), rng.randint(1, 2))), False)]
            for first in [rng.randint(0, 200)]
        ]
        left = staying(files, 10, ordered=ORDERED)
        stays = [each for each in files if each.label > 10]
        for _ in files:
            stays = [
                each
                for each in files
                if each.label > 10
                or any(
                    older.first < each.last and depends_on_order(older.values, each.values, ORDERED)
                    for older in stays
                )
            ]
        assert left == {each.name for each in stays}
