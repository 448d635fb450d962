"""Announced ranges of a far file: the right bytes in any order, each fetched once, and memory that is given back."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from widetable.storage.remote import read_ahead
from widetable.storage.remote.ranged_input import RangedFile, RangedInput
from widetable.storage.remote.read_ahead import PrefetchBudget, Range, ReadAhead, parts_of

FILE = np.random.default_rng(5).bytes(4000)


class Store:
    """fails: so many requests from now on."""

    def __init__(self) -> None:
        self.asked: list[Range] = []
        self.fails = 0
        self._lock = threading.Lock()

    def range_of(self, start: int, end: int) -> bytes:
        with self._lock:
            self.asked.append(Range(start, end))
            if self.fails:
                self.fails -= 1
                raise OSError("no answer")
        return FILE[start:end]


@st.composite
def announced(draw: Any) -> list[Range]:
    """Ranges that do not overlap, in any order; some meet."""
    edges = sorted(draw(st.lists(st.integers(0, len(FILE)), min_size=2, max_size=24, unique=True)))
    ranges = [Range(*pair) for pair in itertools.pairwise(edges)]
    chosen = draw(st.lists(st.sampled_from(ranges), unique=True, min_size=1))
    return [*draw(st.permutations(chosen))]


@given(announced(), st.integers(0, 300), st.integers(1, 700))
@example([Range(10, 20), Range(0, 10)], 0, 100)
@example([Range(0, 10), Range(15, 20)], 5, 100)
def test_parts_hold_all_ranges_and_little_else(
    ranges: list[Range], gap_bytes: int, most_bytes: int
) -> None:
    parts = parts_of(ranges, gap_bytes, most_bytes)
    wanted = np.zeros(len(FILE), np.int64)
    for start, end in ranges:
        wanted[start:end] += 1
    held = np.zeros(len(FILE), np.int64)
    for (start, end), count in parts:
        assert 0 < end - start <= most_bytes
        assert count == wanted[start:end].sum()
        held[start:end] += 1
    assert held.max() == 1, "no byte is in two parts"
    assert (held >= wanted).all()
    unasked = np.flatnonzero(held > wanted)
    gaps = np.split(unasked, np.flatnonzero(np.diff(unasked) > 1) + 1)
    assert max(map(len, gaps)) <= gap_bytes
    for (one, _), (other, _) in itertools.pairwise(parts):
        is_full = one.end - one.start == most_bytes
        assert one.end <= other.start
        assert is_full or other.start - one.end > gap_bytes, "what lies close comes together"


@given(st.data(), announced())
def test_bytes_are_right_in_any_order_and_memory_is_given_back(
    data: st.DataObject, ranges: list[Range]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "_GAP_BYTES", data.draw(st.sampled_from([0, 50])))
        patch.setattr(read_ahead, "PART_BYTES", data.draw(st.sampled_from([100, 1000])))
        patch.setattr(read_ahead, "_MAX_OF_A_FILE", data.draw(st.sampled_from([0, 900, 5000])))
        store, room = Store(), PrefetchBudget(data.draw(st.sampled_from([0, 500, 5000])))
        ahead = ReadAhead(store.range_of, room)
        ahead.expect(ranges)
        for start, end in data.draw(st.permutations(ranges)):
            assert ahead.read(start, end) == FILE[start:end]
            assert room.taken_bytes <= room.most_bytes
        assert room.taken_bytes == 0
        assert len(set(store.asked)) == len(store.asked), "nothing is fetched twice"
        assert ahead.read(*ranges[0]) is None, "nor is it held any more"


@given(st.data(), announced())
def test_any_bytes_of_a_file_are_right_whatever_was_announced(
    data: st.DataObject, ranges: list[Range]
) -> None:
    store = Store()
    tail_bytes = data.draw(st.sampled_from([0, 64]))
    source = RangedInput(lambda _: (FILE[len(FILE) - tail_bytes :], len(FILE)), store.range_of)
    with RangedFile(source) as file:
        # Also what a damaged footer may say.
        file.expect([*ranges, Range(-9, 5), Range(3990, 5000), Range(9, 9), Range(70, 60)])
        for _ in range(data.draw(st.integers(1, 9))):
            at, size = data.draw(st.tuples(st.integers(0, len(FILE)), st.integers(0, 900)))
            assert file.read_at(size, at) == FILE[at : at + size]


def test_ranges_that_overlap_are_read_right() -> None:
    ahead = ReadAhead(Store().range_of, PrefetchBudget(10_000))
    ahead.expect([Range(0, 100), Range(10, 50), Range(10, 50)])
    for start, end in ((10, 50), (0, 100), (10, 50), (50, 100)):
        assert ahead.read(start, end) in (FILE[start:end], None)
    ahead.expect([Range(0, 100), Range(10, 50)])
    assert ahead.read(0, 100) == FILE[:100]


def test_a_request_that_fails_is_an_error_and_may_be_tried_again() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "PART_BYTES", 100)
        store, room = Store(), PrefetchBudget(10_000)
        ahead = ReadAhead(store.range_of, room)
        ahead.expect([Range(0, 100), Range(100, 900)])
        for fails in (1, 5, 9):
            store.fails = fails
            with pytest.raises(OSError, match="no answer"):
                ahead.read(0, 100)
            assert room.taken_bytes == 800
        store.fails = 0
        assert ahead.read(0, 100) == FILE[:100]
        assert ahead.read(100, 900) == FILE[100:900]
        assert room.taken_bytes == 0


def test_bytes_that_are_too_few_are_not_given() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "PART_BYTES", 100)
        room = PrefetchBudget(10_000)
        ahead = ReadAhead(lambda start, end: FILE[start : min(end, 250)], room)
        ahead.expect([Range(0, 1000)])
        assert ahead.read(0, 150) == FILE[:150]
        assert ahead.read(150, 350) is None
        ahead.close()
        assert room.taken_bytes == 0


def test_what_nobody_reads_is_given_back_when_the_file_is_closed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "PART_BYTES", 100)
        room = PrefetchBudget(10_000)
        ahead = ReadAhead(Store().range_of, room)
        ahead.expect([Range(0, 1000)])
        assert ahead.read(0, 10) == FILE[:10]
        assert room.taken_bytes == 900
        ahead.close()
        assert room.taken_bytes == 0


def test_files_share_the_room() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "PART_BYTES", 100)
        room, store = PrefetchBudget(500), Store()
        for _ in range(10):
            ahead = ReadAhead(store.range_of, room)
            ahead.expect([Range(0, 400)])
            assert ahead.read(0, 100) == FILE[:100]
            assert room.taken_bytes <= 500
        assert len(store.asked) == 4 + 3 + 8  # three ahead, two, and then none
