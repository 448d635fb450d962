"""The bytes of each row of a column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from widetable.kernels.row_widths import row_widths, varies

_STRUCT = pa.struct({"a": pa.string(), "b": pa.int64()})
COLUMNS = {
    "numbers": (pa.array([1, None, 3], pa.int32()), [4, 4, 4], [0, 0, 0]),
    "booleans": (pa.array([True, None]), [1, 1], [0, 0]),
    "decimals": (pa.array([1], pa.decimal128(30, 2)), [16], [0]),
    "texts": (pa.array(["ab", None, "", "äö"]), [6, 4, 4, 8], [2, 0, 0, 4]),
    "bytes": (pa.array([b"abc", None]), [7, 4], [3, 0]),
    "structs": (
        pa.array([{"a": "xy", "b": 7}, {"a": None, "b": None}], _STRUCT),
        [14, 12],
        [2, 0],
    ),
    "lists": (
        pa.array([["ab", "c"], None, ["d"], []], pa.list_(pa.string())),
        [15, 4, 9, 4],
        [3, 0, 1, 0],
    ),
    "lists of numbers": (pa.array([[1, 2], [3]], pa.list_(pa.int16())), [8, 6], [0, 0]),
    "maps": (
        pa.array([[("k", 1), ("long", 2)], None], pa.map_(pa.string(), pa.int64())),
        [33, 4],
        [5, 0],
    ),
    "nested": (
        pa.array([[{"a": "xyz", "b": 1}], [], [{"a": "q", "b": 2}] * 2], pa.list_(_STRUCT)),
        [19, 4, 30],
        [3, 0, 2],
    ),
    "none": (pa.array([], pa.string()), [], []),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_bytes_of_rows_and_of_their_slices(name: str) -> None:
    array, widths, texts = COLUMNS[name]
    for start in range(len(array) + 1):
        for end in range(start, len(array) + 1):
            part = array.slice(start, end - start)
            assert row_widths(part).tolist() == widths[start:end]
            assert row_widths(part, texts_only=True).tolist() == texts[start:end]


def test_values_of_types_without_one_size_vary() -> None:
    fixed = {"numbers", "booleans", "decimals"}
    assert {name for name, (array, *_) in COLUMNS.items() if not varies(array.type)} == fixed
