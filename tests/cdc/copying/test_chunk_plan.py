"""Chunks hold every key once, whatever the bounds; they are read, resumed, split and at last dropped."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable import InvalidError
from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.copying.chunk_states import ChunkState
from widetable_cdc.source.chunk_range import ChunkRange, KeyKind
from widetable_cdc.source.source_snapshot import SourceSnapshot

_INT64 = st.integers(-(2**63), 2**63 - 1)


def _plan(bounds: list[int]) -> ChunkPlan:
    ends = [None, *bounds, None]
    pairs = pairwise(ends)
    return ChunkPlan.planned(16384, [ChunkRange("id", KeyKind.INTEGER, *pair) for pair in pairs])


@given(st.sets(_INT64), st.lists(_INT64, min_size=1))
def test_each_key_lies_in_the_one_chunk_whose_range_holds_it(
    bounds: set[int], keys: list[int]
) -> None:
    plan = _plan(sorted(bounds))
    for key, place in zip(keys, plan.places_of(pa.array(keys, pa.int64())), strict=True):
        for other, state in enumerate(plan.states):
            low, high = state.key_range.low, state.key_range.high
            holds = (low is None or low <= key) and (high is None or key < high)
            assert holds == (other == place)


def test_a_split_keeps_numbers_and_holds_every_key(rng: random.Random) -> None:
    plan = _plan([0, 100]).copied(2, SourceSnapshot(5, 6), 70)
    split = plan.split(1, [30, 60]).split(0, [-50])
    bounds = [(each.chunk, each.key_range.low, each.key_range.high) for each in split.states]
    assert bounds == [
        (0, None, -50),
        (5, -50, 0),
        (1, 0, 30),
        (3, 30, 60),
        (4, 60, 100),
        (2, 100, None),
    ]
    keys = [rng.randint(-200, 200) for _ in range(100)]
    places = split.places_of(pa.array(keys, pa.int32()))
    expected = [sum(key >= bound for bound in (-50, 0, 30, 60, 100)) for key in keys]
    assert places.tolist() == expected


def test_a_copied_chunk_is_not_split() -> None:
    plan = _plan([0]).copied(0, SourceSnapshot(5, 6), 70)
    with pytest.raises(InvalidError, match="copied"):
        plan.split(0, [-5])


def test_chunks_are_read_in_their_order_until_none_is_left() -> None:
    plan = _plan([0, 100])
    assert [each.chunk for each in plan.to_read(2)] == [0, 1]
    plan = plan.copied(1, SourceSnapshot(5, 6), 70)
    assert [each.chunk for each in plan.to_read()] == [0, 2]
    plan = plan.copied(0, SourceSnapshot(5, 6), 80).copied(2, SourceSnapshot(7, 9, (8,)), 60)
    assert plan.is_copied
    assert not plan.streams(79)
    assert plan.streams(80)
    assert [each.chunk for each in plan.again().to_read()] == [0, 1, 2]
    assert not plan.again().streams(1 << 62)


def test_a_table_without_a_key_to_cut_is_one_chunk() -> None:
    plan = ChunkPlan.planned(1, [ChunkRange()])
    assert plan.key_column is None
    assert plan.places_of(pa.array(["a", None])).tolist() == [0, 0]
    assert _plan([4]).key_column == "id"


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [(None, 5), (6, None)],
        [(None, 5), (4, None)],
        [(0, 5), (5, None)],
        [(None, 5)],
        [(None, None), (None, None)],
        [(None, 5), (5, 5), (5, None)],
    ],
)
def test_ranges_that_miss_or_share_a_key_are_refused(
    ranges: list[tuple[int | None, int | None]],
) -> None:
    with pytest.raises(InvalidError, match="chunks of a table"):
        ChunkPlan.planned(1, [ChunkRange("id", KeyKind.INTEGER, *each) for each in ranges])


def test_chunks_of_two_tables_are_no_plan() -> None:
    lower = ChunkState(1, 0, ChunkRange("id", KeyKind.INTEGER, None, 5))
    upper = ChunkState(2, 1, ChunkRange("id", KeyKind.INTEGER, 5, None))
    with pytest.raises(InvalidError, match="several tables"):
        ChunkPlan([lower, upper])
