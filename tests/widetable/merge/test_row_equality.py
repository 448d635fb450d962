"""Values are compared as `==` in Python compares them, but for NaN and -0.0; slices and nested values too."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from widetable.merge.row_equality import equal_values

_ITEMS = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
_MAP = pa.map_(pa.string(), pa.float64())


def same(left: Any, right: Any) -> bool:
    """The plain twin."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [None, 1, 2]),
    (pa.bool_(), [None, True, False]),
    (pa.string(), [None, "", "a", "b"]),
    (pa.float64(), [None, 0.0, -0.0, math.nan, -math.nan, 1.5]),
    (pa.float32(), [None, 0.0, -0.0, math.nan]),
    (pa.struct([("a", pa.int32())]), [None, {"a": None}, {"a": 1}]),
    (pa.list_(pa.float64()), [None, [], [None], [math.nan], [0.0], [-0.0], [1.0, 2.0]]),
    (_ITEMS, [None, [], [None], [{"a": 1, "b": None}], [{"a": 1, "b": "x"}, None]]),
    (_MAP, [None, [], [("x", 1.0)], [("x", None)], [("x", 1.0), ("y", 2.0)], [("y", 1.0)]]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_equality_is_that_of_plain_values(
    rng: random.Random, kind: pa.DataType, values: list[Any]
) -> None:
    pairs = [(rng.choice(values), rng.choice(values)) for _ in range(300)]
    # What lies before and behind a slice must not be looked at.
    left = pa.array([pair[0] for pair in pairs], kind).slice(7, 250)
    right = pa.array([values[0]] + [pair[1] for pair in pairs], kind).slice(8, 250)
    expected = [same(a, b) for a, b in pairs[7:257]]
    assert equal_values(left, right).tolist() == expected
    assert any(expected)
    assert not all(expected)


def test_no_rows_are_equal_to_no_rows() -> None:
    assert equal_values(pa.array([], _MAP), pa.array([], _MAP)).tolist() == []
