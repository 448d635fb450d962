"""Texts of an Arrow column as bytes and ranges, and ranges as an Arrow column of texts again.

    "a\\n"  with its quotes       raw_texts: "a\\n" with its quotes, `string_texts`: a and a line feed
    12.50                         both: 12.50

In: Arrow columns of texts, or the ranges that `json_fields` gives. Out: large_string columns. A start of -1 is null.
Raises nothing: ranges come from texts that were checked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from widetable.connector import kernel
from widetable_cdc.debezium.json_fields import Ranges, frozen
from widetable_cdc.debezium.json_kernels import (
    Bytes,
    Longs,
    Mask,
    text_sizes,
    write_texts,
)


class Texts(NamedTuple):
    """Texts that lie one behind the other in `data`."""

    data: Bytes
    ranges: Ranges


def texts_of(column: pa.Array) -> Texts:
    """Return the bytes of a large_string or large_binary column, without a copy. A null is no text."""
    _, offsets, values = column.buffers()
    count = len(column)
    if not count or offsets is None:
        return Texts(frozen(np.empty(0, np.uint8)), Ranges(*np.empty((2, 0), np.int64)))
    ends = np.frombuffer(offsets, np.int64, count + 1, column.offset * 8)
    data = np.empty(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)
    valid = np.asarray(column.is_valid())
    return Texts(frozen(data), Ranges(ends[:-1], ends[1:]).where(valid))


def raw_texts(data: Bytes, ranges: Ranges) -> pa.Array:
    """Return ranges as they are, as large_string."""
    sizes = np.where(ranges.is_there, ranges.ends - ranges.starts, 0)
    offsets = _offsets(sizes)
    out = np.empty(offsets[-1], np.uint8)
    copy_texts(data, frozen(ranges.starts), frozen(ranges.ends), frozen(offsets), out)
    return _column(offsets, out, ranges.is_there)


def string_texts(data: Bytes, ranges: Ranges) -> pa.Array:
    """Return what JSON strings say, and other values as they are, as large_string."""
    is_string = ranges.begin_with(data, '"')
    starts, ends = ranges.starts + is_string, ranges.ends - is_string
    sizes = np.zeros(len(starts), np.int64)
    text_sizes(data, frozen(starts), frozen(ends), sizes, np.empty(0, np.uint8))
    if np.array_equal(sizes, np.where(ranges.is_there, ends - starts, 0)):
        return raw_texts(data, Ranges(starts, ends))
    offsets = _offsets(sizes)
    out = np.empty(offsets[-1], np.uint8)
    write_texts(data, frozen(starts), frozen(ends), frozen(offsets), out)
    return _column(offsets, out, ranges.is_there)


def _offsets(sizes: Longs) -> Longs:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _column(offsets: Longs, out: Bytes, valid: Mask) -> pa.Array:
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.LargeStringArray.from_buffers(len(valid), buffers[1], buffers[2], bits)


@kernel
def copy_texts(data: Bytes, starts: Longs, ends: Longs, offsets: Longs, out: Bytes) -> None:
    """Write texts as they are, text i from offsets[i] on."""
    for row in range(len(starts)):
        at = offsets[row]
        for i in range(starts[row], ends[row]):
            out[at] = data[i]
            at += 1
