"""Texts of one-dimensional arrays are cut into the texts of their elements. Pure.

PostgreSQL's documentation, "Array Input and Output Syntax":

    array       ("[" bounds "]" "=")? "{" (element ("," element)*)? "}"
    element     "NULL" | plain text | '"' (byte | "\\\\" byte)* '"'

Bounds are passed over: a list counts from its first element. An array of several dimensions has "{" inside, and is bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.connector import kernel
from widetable_cdc.values.text_bytes import text_bytes

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_BOUNDS: Final = ord("[")
_EQUALS: Final = ord("=")
_COMMA: Final = ord(",")
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_NULL: Final = ord("N")
_BAD: Final = -1


@dataclass(frozen=True)
class ArrayElements:
    """Elements of n arrays. texts: of all of them, a large_string array. offsets: int64[n + 1], where those of an array
    begin. bad: bool[n], arrays that are not of the grammar; they have no elements.
    """

    texts: pa.Array
    offsets: Longs
    bad: Flags


def array_elements(texts: pa.Array) -> ArrayElements:
    """Cut texts of arrays. texts: a large_string array; a null has no elements."""
    data, offsets, is_null = text_bytes(texts)
    counts = np.zeros(len(texts), np.int64)
    _count(data, offsets, is_null, counts)
    bad = counts == _BAD
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.maximum(counts, 0), out=begins[1:])
    count = int(begins[-1])
    values = np.empty(int(offsets[-1] - offsets[0]), np.uint8)
    ends = np.zeros(count + 1, np.int64)
    valid = np.empty(count, np.bool_)
    _cut(data, offsets, counts, values, ends, valid)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(ends), pa.py_buffer(values)]
    return ArrayElements(pa.Array.from_buffers(pa.large_string(), count, buffers), begins, bad)


@kernel
def _element_end(data: Bytes, at: int, end: int) -> int:
    """Return the offset behind an element; -1 if it is not of the grammar."""
    if at < end and data[at] == _QUOTE:
        at += 1
        while at < end and data[at] != _QUOTE:
            at += 2 if data[at] == _BACKSLASH else 1
        return at + 1 if at < end else _BAD
    first = at
    while at < end and data[at] != _COMMA and data[at] != _CLOSE:
        if data[at] in (_OPEN, _QUOTE):
            return _BAD
        at += 1
    return at if first < at < end else _BAD


@kernel
def _first_element(data: Bytes, at: int, end: int) -> int:
    """Return the offset behind the opening brace; -1 if there is none."""
    if at < end and data[at] == _BOUNDS:
        while at < end and data[at] != _EQUALS:
            at += 1
        at += 1
    return at + 1 if at < end and data[at] == _OPEN else _BAD


@kernel
def _count(data: Bytes, offsets: Longs, is_null: Flags, counts: Longs) -> None:
    """Count the elements of each array, -1 for a bad one; counts are 0 before."""
    for row in range(len(counts)):
        if is_null[row]:
            continue
        end = offsets[row + 1]
        at = _first_element(data, offsets[row], end)
        if at == end - 1 and data[at] == _CLOSE:
            continue
        while at != _BAD:
            at = _element_end(data, at, end)
            if at == _BAD or at >= end:
                at = _BAD
            else:
                counts[row] += 1
                if data[at] == _CLOSE and at == end - 1:
                    break
                at = at + 1 if data[at] == _COMMA else _BAD
        if at == _BAD:
            counts[row] = _BAD


@kernel
def _cut(
    data: Bytes, offsets: Longs, counts: Longs, values: Bytes, ends: Longs, valid: Flags
) -> None:
    """Copy the elements of arrays that are of the grammar. ends[0] is 0."""
    number, to = 0, np.int64(0)
    for row in range(len(counts)):
        end = offsets[row + 1]
        at = _first_element(data, offsets[row], end) if counts[row] > 0 else offsets[row]
        for _ in range(counts[row]):
            behind = _element_end(data, at, end)
            if data[at] == _QUOTE:
                step = at + 1
                while step < behind - 1:
                    if data[step] == _BACKSLASH:
                        step += 1
                    values[to] = data[step]
                    to += 1
                    step += 1
                valid[number] = True
            else:
                is_null = behind - at == 4 and data[at] == _NULL
                is_null = (
                    is_null and data[at + 1] == 85 and data[at + 2] == 76 and data[at + 3] == 76
                )
                valid[number] = not is_null
                if not is_null:
                    for step in range(at, behind):
                        values[to] = data[step]
                        to += 1
            ends[number + 1] = to
            number += 1
            at = behind + 1
