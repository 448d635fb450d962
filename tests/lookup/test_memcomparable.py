"""Encoded keys sort as the rows of a data file do, and differ when the keys differ."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from widetable_lookup.memcomparable import encode_keys

pytestmark = pytest.mark.usefixtures("tier")

KEY_COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(st.characters(codec="utf-8"), max_size=6)),
    (pa.binary(), st.lists(st.sampled_from([0, 1, 254, 255]), max_size=5).map(bytes)),
    (pa.decimal128(10, 2), st.decimals(-99999999, 99999999, places=2)),
    (pa.decimal128(30, 2), st.decimals(-(10**25), 10**25, places=2)),
]


def _rank(value: Any) -> Any:
    """A Python value that compares as Paimon compares."""
    if isinstance(value, float):
        bits = struct.unpack(">q", struct.pack(">d", value))[0]
        return (1, 0) if math.isnan(value) else (0, bits if bits >= 0 else -(2**63) - bits - 1)
    return value.encode() if isinstance(value, str) else value


@given(st.data())
def test_byte_order_is_key_order(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KEY_COLUMNS), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*[values for _, values in kinds]), min_size=2, max_size=8))
    columns = [pa.array([row[i] for row in rows], kind) for i, (kind, _) in enumerate(kinds)]
    keys = encode_keys(columns, ["c"] * len(columns)).to_list()
    stored = list(zip(*[column.to_pylist() for column in columns], strict=True))
    for one, one_key in zip(stored, keys, strict=True):
        for other, other_key in zip(stored, keys, strict=True):
            expected = [_rank(v) for v in one] < [_rank(v) for v in other]
            assert (one_key < other_key) == expected, (one, other)


def test_written_by_hand_from_the_grammar() -> None:
    columns = [pa.array([1, -1], pa.int32()), pa.array([b"a\x00", b""], pa.binary())]
    assert encode_keys(columns, ["a", "b"]).to_list() == [
        bytes.fromhex("80000001 61 00FF 0001"),
        bytes.fromhex("7FFFFFFF 0001"),
    ]
    assert encode_keys([pa.array([Decimal("-0.01")], pa.decimal128(20, 2))], ["a"]).to_list() == [
        bytes.fromhex("7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF")
    ]


def test_no_rows_give_no_keys() -> None:
    assert encode_keys([pa.array([], pa.string())], ["a"]).to_list() == []
    assert encode_keys([pa.array([], pa.int64())], ["a"]).to_list() == []


def test_a_null_is_refused_by_column() -> None:
    with pytest.raises(wt.InvalidError, match="'a'"):
        encode_keys([pa.array([1, None], pa.int64())], ["a"])


def test_a_nested_column_is_refused_by_column() -> None:
    with pytest.raises(wt.UnsupportedError, match="'a'"):
        encode_keys([pa.array([[1]], pa.list_(pa.int64()))], ["a"])
