"""Rows, hashes and buckets of key values against vectors that Paimon's Java and Python clients agree on."""

import datetime
import decimal
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.binary_rows import BinaryRows, Layout, encode_binary_rows
from widetable.kernels.hashing.bucket_hash import bucket_of, mod_bucket, murmur_hash

_FILE = Path(__file__).parents[2] / "vectors" / "bucket_vectors.jsonl"
VECTORS = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]

_SIMPLE = {
    "BOOLEAN": (pa.bool_(), Layout.BOOL),
    "TINYINT": (pa.int8(), Layout.INT8),
    "SMALLINT": (pa.int16(), Layout.INT16),
    "INT": (pa.int32(), Layout.INT32),
    "BIGINT": (pa.int64(), Layout.INT64),
    "FLOAT": (pa.float32(), Layout.FLOAT),
    "DOUBLE": (pa.float64(), Layout.DOUBLE),
    "STRING": (pa.string(), Layout.BYTES),
    "CHAR": (pa.string(), Layout.BYTES),
    "VARCHAR": (pa.string(), Layout.BYTES),
    "BYTES": (pa.binary(), Layout.BYTES),
    "VARBINARY": (pa.binary(), Layout.BYTES),
    "DATE": (pa.date32(), Layout.INT32),
    "TIME": (pa.time32("ms"), Layout.INT32),
}


def _arrow(type_text: str, value: Any) -> tuple[pa.Array, Layout]:
    match = re.match(r"(\w+)(?:\(([\d, ]+)\))?", type_text)
    assert match is not None
    name, arguments = match.groups()
    if name == "DECIMAL":
        precision, scale = (int(part) for part in arguments.split(","))
        layout = Layout.DECIMAL_COMPACT if precision <= 18 else Layout.DECIMAL_WIDE
        return pa.array([decimal.Decimal(value)], pa.decimal128(precision, scale)), layout
    if name == "TIMESTAMP":
        layout = Layout.TIMESTAMP_WIDE if int(arguments) > 3 else Layout.TIMESTAMP_COMPACT
        return pa.array([np.datetime64(value, "ns")], pa.timestamp("ns")), layout
    kind, layout = _SIMPLE[name]
    if value is not None and name == "DATE":
        value = datetime.date.fromisoformat(value)
    if value is not None and name == "TIME":
        value = datetime.time.fromisoformat(value)
    if value is not None and pa.types.is_binary(kind):
        value = bytes.fromhex(value)
    return pa.array([value], kind), layout


def _encode(vector: dict[str, Any]) -> BinaryRows:
    columns, layouts = zip(*map(_arrow, vector["types"], vector["values"]), strict=True)
    return encode_binary_rows(columns, layouts)


def _name(vector: dict[str, Any]) -> str:
    return f"{vector['types']}-{vector['values']}"


@pytest.mark.parametrize("vector", VECTORS, ids=_name)
def test_row_hash_and_buckets_of_a_vector(vector: dict[str, Any]) -> None:
    rows = _encode(vector)
    assert rows.row(0).hex() == vector["row_hex"]
    hashes = murmur_hash(rows)
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [vector["hash"]]
    for buckets, bucket in vector["bucket"].items():
        assert bucket_of(hashes, int(buckets)).tolist() == [bucket]


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if "mod5" in v and v["values"] != [None]], ids=_name
)
def test_mod_bucket_of_a_vector(vector: dict[str, Any]) -> None:
    values = np.array(vector["values"], np.int64)
    assert mod_bucket(values, 5).tolist() == [vector["mod5"]]


def test_all_vectors_at_once() -> None:
    """Many rows in one call give what each gives alone."""
    strings = [v for v in VECTORS if v["types"] == ["STRING NOT NULL"]]
    column = pa.array([v["values"][0] for v in strings])
    rows = encode_binary_rows([column], [Layout.BYTES])
    assert [rows.row(i).hex() for i in range(len(rows))] == [v["row_hex"] for v in strings]
    assert murmur_hash(rows).tolist() == [v["hash"] for v in strings]
    assert murmur_hash(encode_binary_rows([column[:0]], [Layout.BYTES])).tolist() == []


def _murmur(row: bytes) -> int:
    h = 42
    for (k,) in struct.iter_unpack("<I", row):
        k = k * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) & 0xFFFFFFFF
        h ^= k * 0x1B873593 & 0xFFFFFFFF
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= len(row)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_murmur_is_the_plain_one_on_every_row(values: list[bytes]) -> None:
    rows = encode_binary_rows([pa.array(values, pa.binary())], [Layout.BYTES])
    assert murmur_hash(rows).tolist() == [_murmur(rows.row(i)) for i in range(len(rows))]


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 2**31 - 1))
def test_bucket_is_the_absolute_truncating_remainder(value: int, buckets: int) -> None:
    expected = abs(value) % buckets
    assert bucket_of(np.array([value], np.int32), buckets).tolist() == [expected]
