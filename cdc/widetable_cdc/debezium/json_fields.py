"""Where the fields of JSON objects and the elements of JSON arrays lie, for many texts at once.

In: bytes in which text i is data[starts[i] : ends[i]], valid UTF-8; a start of -1 stands for no text. Out: ranges of
bytes. No value is converted, so all digits of a number stay. Raises nothing: a text that is no JSON is marked.

    text        {"id": 1, "name": "x\\n", "more": [1]}       names: name, id, big
    ranges      name: "x\\n" with its quotes; id: 1; big: -1, it is absent
    unknown     more, the first name that is not among them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from widetable.connector import kernel
from widetable_cdc.debezium.json_kernels import (
    MAX_DEPTH,
    Bytes,
    LongRows,
    Longs,
    Mask,
    scan_arrays,
    scan_objects,
)

# A name with escapes is compared in a buffer; a longer one is unknown.
_NAME_BYTES: Final = 4096


class Ranges(NamedTuple):
    """Ranges of bytes: n texts. starts, ends: int64[n], -1 for no text."""

    starts: Longs
    ends: Longs

    @property
    def is_there(self) -> Mask:
        """Return where there is a text: bool[n]."""
        return self.starts >= 0

    def where(self, keeps: Mask) -> Ranges:
        """Return the ranges, with no text where `keeps` is false."""
        return Ranges(np.where(keeps, self.starts, -1), np.where(keeps, self.ends, -1))

    def begin_with(self, data: Bytes, letters: str) -> Mask:
        """Return which texts begin with one of these letters: bool[n]. No text is empty."""
        firsts = data[np.maximum(self.starts, 0)] if len(data) else np.zeros(len(self.starts))
        return self.is_there & np.isin(firsts, [ord(letter) for letter in letters])


@dataclass(frozen=True)
class Fields:
    """Fields of n objects. ranges: int64[2 + 2 * names, n], of the first other name, without its quotes, and of the
    value of each name. is_json: bool[n], false for a text that is no object.
    """

    names: tuple[str, ...]
    ranges: LongRows
    is_json: Mask

    def __getitem__(self, name: str) -> Ranges:
        """Return where the values of a field lie."""
        at = 2 * self.names.index(name) + 2
        return Ranges(self.ranges[at], self.ranges[at + 1])

    @property
    def unknown(self) -> Ranges:
        """Where the first name of each object lies that is not among the names."""
        return Ranges(self.ranges[0], self.ranges[1])


class Elements(NamedTuple):
    """Elements of n arrays. offsets: int64[n + 1], where the elements of each begin. ranges: of all elements. is_json:
    bool[n], false for a text that is no array, which has no elements.
    """

    offsets: Longs
    ranges: Ranges
    is_json: Mask


def scan_fields(data: Bytes, texts: Ranges, names: Sequence[str]) -> Fields:
    """Find fields of objects by their names. No text counts as an object without fields."""
    rows = len(texts.starts)
    encoded = [name.encode() for name in names]
    letters = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    ranges, is_json = np.full((2 + 2 * len(names), rows), -1, np.int64), np.zeros(rows, np.bool_)
    pairs = frozen(np.column_stack([texts.starts, texts.ends]))
    room = np.empty(MAX_DEPTH + _NAME_BYTES, np.uint8)
    scan_objects(data, pairs, frozen(letters), frozen(ends), ranges, is_json, room)
    return Fields(tuple(names), ranges, is_json)


def scan_elements(data: Bytes, texts: Ranges) -> Elements:
    """Find the elements of arrays. No text counts as an array without elements."""
    rows = len(texts.starts)
    starts, ends = frozen(texts.starts), frozen(texts.ends)
    counts, stack = np.zeros(rows, np.int64), np.empty(MAX_DEPTH, np.uint8)
    scan_arrays(data, starts, ends, counts, np.empty(0, np.int64), np.empty(0, np.int64), stack)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.maximum(counts, 0), out=offsets[1:])
    ranges = Ranges(np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64))
    scan_arrays(data, starts, ends, counts, ranges.starts, ranges.ends, stack)
    return Elements(offsets, ranges, counts >= 0)


def repeats(data: Bytes, texts: Ranges) -> Mask:
    """Return which texts are equal to the text before them: bool[n]. No text is equal to no text."""
    marks = np.zeros(len(texts.starts), np.bool_)
    mark_repeats(data, frozen(texts.starts), frozen(texts.ends), marks)
    return marks


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view of an array: kernels are compiled once for it and for what Arrow holds."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@kernel
def mark_repeats(data: Bytes, starts: Longs, ends: Longs, repeats: Mask) -> None:
    """Mark the texts that are equal to the text before them, -1 and -1 among them."""
    for row in range(1, len(starts)):
        size = ends[row] - starts[row]
        is_equal = size == ends[row - 1] - starts[row - 1] and (
            (starts[row] < 0) == (starts[row - 1] < 0)
        )
        if is_equal:
            for i in range(size):
                if data[starts[row] + i] != data[starts[row - 1] + i]:
                    is_equal = False
                    break
        repeats[row] = is_equal
