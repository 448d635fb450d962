"""Columns of arbitrary bit patterns, drawn as Arrow buffers: what no list of friendly Python values would hold.

`draw_type` draws a type that a table can have, `draw_column` a column of it: days of the year 5,000,000, NaNs of every
payload, texts with every code point, empty and very long ones. `cells` gives the values in a form that compares as the
engine must compare them: exactly, but that all NaNs are one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

FLAT: Final = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time32("ms"),
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("ms", tz="UTC"),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("ns", tz="UTC"),
    pa.decimal128(1, 0),
    pa.decimal128(18, 9),
    pa.decimal128(19, 2),
    pa.decimal128(27, 3),
    pa.decimal128(38, 38),
)
_DAY_MILLIS: Final = 86_400_000
_ALPHABETS: Final = ((0, 1), (0x20, 0x7E), (0, 0xD7FF), (0xE000, 0x10FFFF))
_SIZES: Final = (0, 1, 3, 7, 8, 9, 63, 64, 65, 130)


def draw_type(rng: random.Random, depth: int = 2) -> pa.DataType:
    """Flat or nested."""
    kind = rng.choice(("flat",) * 4 + ("list", "struct", "map")) if depth else "flat"
    if kind == "flat":
        return rng.choice(FLAT)
    if kind == "list":
        return pa.list_(pa.field("element", draw_type(rng, depth - 1)))
    if kind == "map":
        return pa.map_(rng.choice(FLAT), draw_type(rng, depth - 1))
    return pa.struct([(f"f{i}", draw_type(rng, depth - 1)) for i in range(rng.randint(1, 3))])


def draw_column(
    rng: random.Random, kind: pa.DataType, rows: int, *, nulls: bool = True, longest: int = 250
) -> pa.Array:
    """longest: bytes of a text or binary at most."""
    valid = np.array([not nulls or rng.random() < 0.8 for _ in range(rows)], np.bool_)
    if pa.types.is_struct(kind):
        parts = [draw_column(rng, part.type, rows, longest=longest) for part in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array(~valid))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _lists(rng, kind, valid, longest)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes(rng, kind, valid, longest)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(rng.randbytes(rows // 8 + 1))])
    values = b"".join(_fixed(rng, kind) for _ in range(rows))
    return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(values)])


def _fixed(rng: random.Random, kind: pa.DataType) -> bytes:
    size = kind.bit_width // 8
    if pa.types.is_time(kind):
        return rng.choice((0, _DAY_MILLIS - 1, rng.randrange(_DAY_MILLIS))).to_bytes(4, "little")
    if pa.types.is_decimal(kind):
        end = 10**kind.precision
        drawn = rng.choice((0, -1, 1 - end, end - 1, rng.randrange(1 - end, end)))
        return drawn.to_bytes(16, "little", signed=True)
    most = (1 << (8 * size - 1)) - 1
    ends = [number.to_bytes(size, "little", signed=True) for number in (0, -1, most, -most - 1)]
    return rng.choice((*ends, rng.randbytes(size), rng.randbytes(size)))


def _lists(
    rng: random.Random, kind: pa.DataType, valid: Any, longest: int
) -> pa.ListArray | pa.MapArray:
    lengths = [rng.choice((0, 1, 1, 3)) if each else 0 for each in valid]
    offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
    mask, total = pa.array(~valid), sum(lengths)
    if pa.types.is_list(kind):
        values = draw_column(rng, kind.value_type, total, longest=longest)
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)
    keys = draw_column(rng, kind.key_type, total, nulls=False)
    items = draw_column(rng, kind.item_type, total, longest=longest)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)


def _bytes(rng: random.Random, kind: pa.DataType, valid: Any, longest: int) -> pa.Array:
    prefix = b"shared prefix " * rng.choice((0, 0, 1, 6))
    values = [
        None if not each else (prefix + _content(rng, kind, longest))[:longest] for each in valid
    ]
    if pa.types.is_string(kind):  # cut between two characters
        values = [v if v is None else v.decode(errors="ignore").encode() for v in values]
    return pa.array(values, pa.binary()).view(kind)


def _content(rng: random.Random, kind: pa.DataType, longest: int) -> bytes:
    size = rng.choice(_SIZES) if rng.random() < 0.9 else rng.randrange(longest)
    if pa.types.is_binary(kind):
        return rng.randbytes(size)
    first, last = rng.choice(_ALPHABETS)
    text = "".join(chr(rng.randint(first, last)) for _ in range(min(size, 200)))
    return (text * (size // 200 + 1)).encode()


def cells(array: pa.Array) -> list[Any]:
    """One value per row: None, integers, bytes, bits of floats, tuples of them."""
    kind = array.type
    if pa.types.is_struct(kind):
        found: Sequence[Any] = list(zip(*(cells(p) for p in array.flatten()), strict=True))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        parts = [array.values] if pa.types.is_list(kind) else [array.keys, array.items]
        items = list(zip(*map(cells, parts), strict=True))
        ends = array.offsets.to_pylist()
        found = [tuple(items[a:b]) for a, b in pairwise(ends)]
    elif pa.types.is_string(kind):
        found = array.view(pa.binary()).to_pylist()
    elif pa.types.is_decimal(kind):
        found = [None if v is None else bytes(v) for v in array.view(pa.binary(16)).to_pylist()]
    elif pa.types.is_floating(kind):
        number = np.dtype(f"f{kind.bit_width // 8}")
        values = np.frombuffer(
            array.buffers()[1], number, len(array), array.offset * number.itemsize
        )
        one_nan = np.where(np.isnan(values), number.type(np.nan), values)
        found = one_nan.view(f"i{number.itemsize}").tolist()
    elif pa.types.is_temporal(kind):
        found = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    else:
        found = array.to_pylist()
    valid = array.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(found, valid, strict=True)]
