"""Folds of columns against loops in Python over whole numbers, fractions and tuples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.aggregate import (
    ADD,
    LATE,
    RETRACT,
    SKIP,
    first_values,
    greatest,
    last_non_nulls,
    last_values,
    multiply_floats,
    multiply_integers,
    sum_floats,
    sum_integers,
    sum_wide,
)

INT8 = -(1 << 7), (1 << 7) - 1
INT64 = -(1 << 63), (1 << 63) - 1
EDGES = [0, 1, -1, 2, -2, 3, 127, -128, *INT64, INT64[1] - 1, INT64[0] + 1, 1 << 32]


@dataclass(frozen=True)
class Folds:
    """Records of several keys in merge order."""

    starts: npt.NDArray[np.int64]
    floor: npt.NDArray[np.int64]
    steps: npt.NDArray[np.int8]
    valid: npt.NDArray[np.bool_]

    def keys(self) -> Iterator[list[int]]:
        """Of each key the records behind the floor that do something."""
        pairs = zip(
            self.starts[:-1].tolist(), self.starts[1:].tolist(), self.floor.tolist(), strict=True
        )
        for start, end, floor in pairs:
            yield [p for p in range(max(start, floor + 1), end) if self.steps[p] != SKIP]

    def folded(self, step: Callable[[Any, int, int], Any], first: Any = -1) -> list[Any]:
        """step(what stands, position, step) by key."""
        found = []
        for positions in self.keys():
            value = first
            for position in positions:
                value = step(value, position, int(self.steps[position]))
            found.append(value)
        return found


@st.composite
def folds(draw: st.DrawFn) -> Folds:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = int(starts[-1])
    pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    floor = [draw(st.integers(start, end - 1) | st.just(-1)) for start, end in pairs]
    steps = draw(
        st.lists(st.sampled_from([SKIP, ADD, ADD, LATE, RETRACT]), min_size=rows, max_size=rows)
    )
    valid = draw(st.lists(st.sampled_from([True, True, False]), min_size=rows, max_size=rows))
    return Folds(
        starts, np.array(floor, np.int64), np.array(steps, np.int8), np.array(valid, np.bool_)
    )


@given(folds())
def test_last_values(case: Folds) -> None:
    def step(stood: int, position: int, kind: int) -> int:
        return {ADD: position, LATE: stood, RETRACT: -1}[kind]

    assert last_values(case.starts, case.floor, case.steps).tolist() == case.folded(step)


@given(folds())
def test_last_non_nulls(case: Folds) -> None:
    def step(stood: int, position: int, kind: int) -> int:
        if not case.valid[position]:
            return stood
        return {ADD: position, LATE: position if stood < 0 else stood, RETRACT: -1}[kind]

    found = last_non_nulls(case.starts, case.floor, case.steps, case.valid)
    assert found.tolist() == case.folded(step)


@pytest.mark.parametrize("nulls_count", [True, False])
@given(case=folds())
def test_first_values(case: Folds, nulls_count: bool) -> None:
    def step(stood: int, position: int, kind: int) -> int:
        counts = nulls_count or bool(case.valid[position])
        if kind == RETRACT:
            return stood
        if kind == LATE:
            return position if counts else -1
        return position if stood < 0 and counts else stood

    found = first_values(case.starts, case.floor, case.steps, case.valid, nulls_count=nulls_count)
    assert found.tolist() == case.folded(step)


@given(folds(), st.data())
def test_greatest(case: Folds, data: st.DataObject) -> None:
    lane = st.sampled_from([0, 1, 1 << 63, (1 << 64) - 1])
    rows = len(case.steps)
    drawn = data.draw(st.lists(st.tuples(lane, lane), min_size=rows, max_size=rows))

    def step(stood: int, position: int, _: int) -> int:
        if not case.valid[position]:
            return stood
        return position if stood < 0 or drawn[position] > drawn[stood] else stood

    lanes = np.array(drawn, np.uint64).reshape(rows, 2)
    assert greatest(case.starts, case.floor, case.steps, case.valid, lanes).tolist() == case.folded(
        step
    )


def values_of(case: Folds, data: st.DataObject, bounds: tuple[int, int]) -> list[int]:
    fitting = [edge for edge in EDGES if bounds[0] <= edge <= bounds[1]]
    one = st.sampled_from(fitting) | st.integers(*bounds) | st.integers(-3, 3)
    return data.draw(st.lists(one, min_size=len(case.steps), max_size=len(case.steps)))


class Wrong(Exception):
    """At which record."""


def added(stood: int | None, value: int, kind: int) -> int:
    return (stood or 0) + (-value if kind == RETRACT else value)


def multiplied(stood: int | None, value: int, kind: int) -> int | None:
    if kind != RETRACT:
        return value if stood is None else stood * value
    if stood is None:
        return None
    if value == 0:
        raise ZeroDivisionError
    quotient = abs(stood) // abs(value)
    return quotient if (stood < 0) == (value < 0) else -quotient


@pytest.mark.parametrize("bounds", [INT8, INT64], ids=["8 bits", "64 bits"])
@pytest.mark.parametrize(("loop", "rule"), [(sum_integers, added), (multiply_integers, multiplied)])
@given(case=folds(), data=st.data())
def test_integers(
    case: Folds, data: st.DataObject, bounds: tuple[int, int], loop: Any, rule: Any
) -> None:
    values = values_of(case, data, bounds)

    def step(stood: int | None, position: int, kind: int) -> int | None:
        if not case.valid[position]:
            return stood
        try:
            found: int | None = rule(stood, values[position], kind)
        except ZeroDivisionError:
            raise Wrong(position) from None
        if found is not None and not bounds[0] <= found <= bounds[1]:
            raise Wrong(position)
        return found

    keys = len(case.floor)
    results, valid = np.zeros(keys, np.int64), np.zeros(keys, np.bool_)
    args = case.starts, case.floor, case.steps, case.valid, np.array(values, np.int64)
    wrong = loop(*args, *bounds, results, valid)
    expected, first_wrong = until_wrong(case, step)
    assert wrong == first_wrong
    pairs = zip(results.tolist(), valid.tolist(), strict=True)
    if wrong < 0:
        assert [value if known else None for value, known in pairs] == expected


def until_wrong(case: Folds, step: Callable[[Any, int, int], Any]) -> tuple[list[Any], int]:
    try:
        return case.folded(step, None), -1
    except Wrong as error:
        return [], int(error.args[0])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("loop", [sum_floats, multiply_floats])
@given(case=folds(), data=st.data())
def test_floats_go_from_left_to_right_in_their_width(
    case: Folds, data: st.DataObject, loop: Any, kind: Any
) -> None:
    bits = data.draw(st.binary(min_size=8 * len(case.steps), max_size=8 * len(case.steps)))
    values = np.frombuffer(bits, kind)[: len(case.steps)]

    def step(stood: Any, position: int, step_: int) -> Any:
        value = values[position]
        if not case.valid[position]:
            return stood
        with np.errstate(all="ignore"):
            if loop is sum_floats:
                if stood is None:
                    return -value if step_ == RETRACT else value
                return stood - value if step_ == RETRACT else stood + value
            if step_ == RETRACT:
                return None if stood is None else stood / value
            return value if stood is None else stood * value

    keys = len(case.floor)
    results, valid = np.zeros(keys, kind), np.zeros(keys, np.bool_)
    loop(case.starts, case.floor, case.steps, case.valid, values, results, valid)
    for found, known, expected in zip(results, valid, case.folded(step, None), strict=True):
        assert known == (expected is not None)
        if known and math.isnan(expected):
            assert math.isnan(found)
        elif known:
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("digits", [19, 38])
@given(case=folds(), data=st.data())
def test_wide_sums_that_pass_the_bound_begin_anew(
    case: Folds, data: st.DataObject, digits: int
) -> None:
    bound = 10**digits
    one = st.sampled_from([0, 1, -1, bound - 1, 1 - bound, bound // 2]) | st.integers(
        1 - bound, bound - 1
    )
    values = data.draw(st.lists(one, min_size=len(case.steps), max_size=len(case.steps)))
    passed = []

    def step(stood: int | None, position: int, kind: int) -> int | None:
        if not case.valid[position]:
            return stood
        found = added(stood, values[position], kind)
        if abs(found) >= bound:
            passed.append(position)
            return None
        return found

    words = np.array([w for v in values for w in _words(v)], np.uint64)
    keys = len(case.floor)
    sums, valid = np.zeros(2 * keys, np.uint64), np.zeros(keys, np.bool_)
    args = (
        case.starts,
        case.floor,
        case.steps,
        case.valid,
        words,
        np.array(_words(bound), np.uint64),
    )
    last = sum_wide(*args, sums, valid)
    expected = case.folded(step, None)
    assert last == max(passed, default=-1)
    assert valid.tolist() == [value is not None for value in expected]
    found = [tuple(pair) for pair in sums.reshape(-1, 2).tolist()]
    assert found == [_words(value or 0) for value in expected]


def _words(value: int) -> tuple[int, int]:
    """Low word first, in two's complement."""
    unsigned = value & ((1 << 128) - 1)
    return unsigned & ((1 << 64) - 1), unsigned >> 64
