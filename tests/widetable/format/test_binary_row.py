"""Rows of keys, partitions and statistics, against vectors that Paimon's Java and pypaimon agree on."""

from __future__ import annotations

import datetime
import json
import random
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.faults.damage import damaged_copies, refused_subject
from tests.support.models.row_values import plain_values, row_of
from widetable.errors import DamagedError, InvalidError, UnsupportedError
from widetable.format.binary_row import (
    EMPTY_ROW,
    decode_row,
    encode_row,
    encode_rows,
    null_row,
    with_arity,
)
from widetable.schema.types import DataType, arrow_type, parse_type

FILE = Path(__file__).parents[2] / "vectors" / "bucket_vectors.jsonl"
VECTORS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
EPOCH = datetime.datetime(1970, 1, 1)
PLAIN_TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "BYTES",
    "DATE",
    "TIME(3)",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 18)",
    "DECIMAL(19, 0)",
    "DECIMAL(38, 10)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
]


def python_value(kind: DataType, json_value: Any) -> Any:
    """The value of a vector."""
    if json_value is None:
        return None
    if kind.root == "DECIMAL":
        return Decimal(json_value)
    if kind.root == "VARBINARY":
        return bytes.fromhex(json_value)
    if kind.root == "DATE":
        return datetime.date.fromisoformat(json_value)
    if kind.root == "TIME":
        at = datetime.datetime.fromisoformat("1970-01-01T" + json_value) - EPOCH
        return at // datetime.timedelta(milliseconds=1)
    if kind.root.startswith("TIMESTAMP"):
        seconds, _, fraction = json_value.partition(".")
        whole = (datetime.datetime.fromisoformat(seconds) - EPOCH) // datetime.timedelta(seconds=1)
        nanos = whole * 10**9 + int(fraction.ljust(9, "0") or 0)
        return nanos // {"ms": 10**6, "us": 10**3, "ns": 1}[arrow_type(kind).unit]
    return json_value


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['types']}{v['values']}")
def test_vector_is_encoded_and_decoded(vector: dict[str, Any]) -> None:
    types = [parse_type(text) for text in vector["types"]]
    pairs = zip(types, vector["values"], strict=True)
    values = tuple(python_value(kind, value) for kind, value in pairs)
    data = bytes.fromhex(vector["manifest_hex"])
    assert row_of(values, types) == data
    assert decode_row(data, types) == plain_values(values, types)


def test_rows_of_columns_are_the_rows_of_their_values() -> None:
    types = [parse_type("STRING"), parse_type("DECIMAL(20, 4)"), parse_type("TIMESTAMP(6)")]
    rows = [("a", Decimal("1.5000"), -1), (None, None, None), ("longer than 7", Decimal(0), 10**15)]
    columns = [
        pa.array(list(values), arrow_type(kind))
        for values, kind in zip(zip(*rows, strict=True), types, strict=True)
    ]
    encoded = encode_rows(columns, types)
    for index, row in enumerate(rows):
        assert with_arity(encoded.row(index), 3) == row_of(row, types)


def test_no_field_is_the_empty_row() -> None:
    assert encode_row((), ()) == EMPTY_ROW == bytes(12)
    assert decode_row(EMPTY_ROW, ()) == ()


@pytest.mark.parametrize("arity", [1, 7, 56, 57, 120, 121, 500])
def test_null_row_is_a_row_of_nulls(arity: int) -> None:
    types = [DataType("INT")] * arity
    assert null_row(arity) == encode_row([None] * arity, types)
    assert decode_row(null_row(arity), types) == (None,) * arity


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    """All plain values of a type."""
    if kind.root == "DECIMAL":
        digits = kind.precision or 0
        return st.integers(-(10**digits) + 1, 10**digits - 1)
    bits = {"TINYINT": 7, "SMALLINT": 15, "BIGINT": 63, "TIMESTAMP": 63, "TIMESTAMP_LTZ": 63}
    plain: dict[str, st.SearchStrategy[Any]] = {
        "BOOLEAN": st.booleans(),
        "FLOAT": st.floats(width=32, allow_nan=False),
        "DOUBLE": st.floats(allow_nan=False),
        "VARCHAR": st.binary(),  # not always UTF-8
        "VARBINARY": st.binary(),
    }
    limit = 2 ** bits.get(kind.root, 31)
    return plain.get(kind.root, st.integers(-limit, limit - 1))


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[list[DataType], list[Any]]:
    types = [parse_type(text) for text in draw(st.lists(st.sampled_from(PLAIN_TYPES), max_size=70))]
    return types, [draw(st.none() | values_of(kind)) for kind in types]


@given(typed_rows())
def test_any_row_comes_back(row: tuple[list[DataType], list[Any]]) -> None:
    types, values = row
    assert decode_row(encode_row(values, types), types) == tuple(values)


@given(typed_rows(), st.randoms(use_true_random=False))
def test_damaged_rows_decode_or_are_refused(
    row: tuple[list[DataType], list[Any]], random: random.Random
) -> None:
    types, values = row
    for piece in damaged_copies(encode_row(values, types), random):
        subject = refused_subject(partial(decode_row, piece, types, "manifest m"))
        assert subject in (None, "manifest m")


@pytest.mark.parametrize("length", range(20))
def test_truncated_row_is_refused(length: int) -> None:
    data = encode_row((7,), [DataType("INT")])
    with pytest.raises(DamagedError, match="a row of 1 fields"):
        decode_row(data[:length], [DataType("INT")])


def test_row_of_another_arity_is_refused() -> None:
    with pytest.raises(DamagedError):
        decode_row(encode_row((1, 2), [DataType("INT")] * 2), [DataType("INT")])


def test_value_that_its_type_cannot_hold_is_refused() -> None:
    for kind, value in (("TINYINT", 300), ("INT", b"x"), ("DECIMAL(4, 2)", 12345), ("DATE", 2**31)):
        with pytest.raises(InvalidError):
            encode_row([value], [parse_type(kind)])


def test_nested_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="nested"):
        encode_row([b""], [parse_type({"type": "ARRAY", "element": "INT"})])
