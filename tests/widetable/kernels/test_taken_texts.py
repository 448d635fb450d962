"""Rows whose texts pass 2 GiB in one array are refused, whatever Arrow says."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from widetable.kernels.gather import take, take_rows
from widetable.kernels.row_widths import check_capacity, row_widths

OLD, NEW = 25, 26
TEXT = "x" * (8 << 20)
WIDE = {
    "text": pa.array([None, TEXT, "y"]),
    "bytes": pa.array([None, TEXT.encode(), b"y"]),
    "struct": pa.array([None, {"a": 1, "s": TEXT}, {"a": 2, "s": "y"}]),
    "list": pa.array([None, ["y", TEXT], ["y"]]),
    "map": pa.array([None, [(TEXT, 1)], [("y", 1)]], pa.map_(pa.string(), pa.int64())),
    "slice": pa.array(["z", None, TEXT, "y"]).slice(1),
}
MANY = np.repeat(np.array([1, 2], np.int64), [300, 5])


@pytest.mark.parametrize("array", WIDE.values(), ids=WIDE)
def test_too_much_text_is_refused_in_every_type(array: pa.Array) -> None:
    with pytest.raises(pa.ArrowInvalid, match="capacity"):
        check_capacity(array, MANY, OLD)
    check_capacity(array, MANY, NEW)
    check_capacity(array, MANY[45:], OLD)  # 255 of them are 2040 MiB
    check_capacity(array, np.where(MANY == 1, -1, MANY), OLD)


@pytest.mark.slow
def test_who_takes_too_much_is_told() -> None:
    with pytest.raises(pa.ArrowInvalid, match="capacity"):
        take(WIDE["text"], MANY)
    with pytest.raises(pa.ArrowInvalid, match="capacity"):
        take_rows(pa.record_batch({"v": WIDE["text"]}), MANY)


def test_offsets_of_64_bits_hold_it() -> None:
    check_capacity(WIDE["text"].cast(pa.large_string()), MANY, OLD)


def test_bytes_are_those_of_each_row(rng: random.Random) -> None:
    for _ in range(50):
        rows = [
            None
            if rng.random() < 0.2
            else [
                {"s": rng.choice([None, "", "ab", "c" * rng.randrange(9)])}
                for _ in range(rng.randrange(4))
            ]
            for _ in range(rng.randrange(1, 9))
        ]
        array = pa.array(rows, pa.list_(pa.struct([("s", pa.string())])))
        first = rng.randrange(len(rows))
        expected = [sum(len(e["s"] or "") for e in row or []) for row in rows[first:]]
        assert row_widths(array.slice(first), texts_only=True).tolist() == expected
