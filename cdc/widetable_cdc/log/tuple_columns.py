"""Rows of changes become columns of texts: two passes over the bytes, none over rows in Python.

In: the changes of one relation in one form, by their offsets. Out: Arrow columns of type large_string. Raises
DamagedError for bytes that are not of this grammar, with the offset.

PostgreSQL's documentation, "Logical Replication Message Formats":

    change      letter, oid: int32, ("K" tuple | "O" tuple)?, ("N" tuple)?      (message_index.py says which)
    tuple       count: int16, value * count
    value       "n" (null) | "u" (unchanged, not sent) | "t" size: int32, text: size bytes

The first pass checks every byte that the second one reads, and adds up the sizes of each column. The second pass copies
texts while their row is in the processor's cache. All columns of a side share the memory of their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.connector import kernel
from widetable_cdc.log.changes import Relation
from widetable_cdc.log.log_damage import damage

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Long: TypeAlias = int | np.int64
Flags = npt.NDArray[np.bool_]

_K: Final = ord("K")
_N: Final = ord("N")
_O: Final = ord("O")
_I: Final = ord("I")
_D: Final = ord("D")
_T: Final = ord("T")
_NULL: Final = ord("n")
_UNCHANGED: Final = ord("u")
_TEXT: Final = ord("t")
_NO_ROW: Final = -1

# What was expected where the bytes are wrong: positions in _EXPECTED.
_FINE: Final = 0
_CUT: Final = 1
_NO_NEW: Final = 2
_NO_OLD: Final = 3
_NO_COUNT: Final = 4
_NO_VALUE: Final = 5
_NO_SIZE: Final = 6
_NO_END: Final = 7
_EXPECTED: Final = (
    "",
    "more bytes of the message",
    "the letter N of a new row",
    "the letter K or O of an old row",
    "as many values as the relation has columns",
    "the letter n, u or t of a value",
    "the size of a text within the message",
    "the end of the message",
)


@dataclass(frozen=True)
class TupleColumns:
    """Columns of n changes. old_rows: uint8[n], K, O or 0. new, old: see `changes.ChangeBatch`."""

    old_rows: Bytes
    new: pa.RecordBatch
    unchanged: dict[str, Flags]
    old: pa.RecordBatch | None


@dataclass(frozen=True)
class _Measures:
    """What the first pass finds in n tuples of one side. starts: int64[n], -1 for none. sizes, values, marks: int64[c],
    bytes, texts, and markers of unchanged values in each column.
    """

    starts: Longs
    sizes: Longs
    values: Longs
    marks: Longs

    @staticmethod
    def empty(rows: int, columns: int) -> _Measures:
        counts = (np.zeros(columns, np.int64) for _ in range(3))
        return _Measures(np.empty(rows, np.int64), *counts)


def tuple_columns(
    data: Bytes, relation: Relation, starts: Longs, ends: Longs, kinds: Bytes
) -> TupleColumns:
    """Read the rows of changes. data: the part. starts, ends, kinds: of their messages. Raises DamagedError."""
    rows, columns = len(starts), len(relation.columns)
    old_rows = np.zeros(rows, np.uint8)
    new, old = _Measures.empty(rows, columns), _Measures.empty(rows, columns)
    place = np.zeros(2, np.int64)
    code = _measure(
        data, starts, ends, kinds, columns, old_rows,
        new.starts, new.sizes, new.values, new.marks,
        old.starts, old.sizes, old.values, old.marks,
        place,
    )  # fmt: skip
    if code != _FINE:
        at, number = (int(item) for item in place)
        raise damage(at, f"the number {number}", _EXPECTED[code])
    new_batch, unchanged = _filled(data, relation, new)
    old_batch = _filled(data, relation, old)[0] if old_rows.any() else None
    return TupleColumns(old_rows, new_batch, unchanged, old_batch)


def _filled(
    data: Bytes, relation: Relation, measures: _Measures
) -> tuple[pa.RecordBatch, dict[str, Flags]]:
    rows, columns = len(measures.starts), len(relation.columns)
    begins = np.cumsum(measures.sizes) - measures.sizes
    offsets = _buffer(columns * (rows + 1) * 8).view(np.int64).reshape(columns, rows + 1)
    bits = np.zeros((columns, (rows + 7) // 8), np.uint8)
    values = _buffer(int(measures.sizes.sum()))
    high = np.zeros(columns, np.uint8)
    is_marked = measures.marks > 0
    marks = np.zeros((int(is_marked.sum()), rows), np.bool_)
    mark_rows = np.cumsum(is_marked) - 1
    _fill(data, measures.starts, begins, offsets, bits, values, high, mark_rows, marks)
    names = [column.name for column in relation.columns]
    block = pa.py_buffer(values)
    arrays = []
    for at, name in enumerate(names):
        nulls = rows - int(measures.values[at])
        buffers = [
            pa.py_buffer(bits[at]) if nulls else None,
            pa.py_buffer(offsets[at]),
            block.slice(int(begins[at]), int(measures.sizes[at])),
        ]
        array = pa.Array.from_buffers(pa.large_string(), rows, buffers, null_count=nulls)
        if high[at] >= 0x80:
            _check_text(array, name, measures.starts)
        arrays.append(array)
    unchanged = {names[at]: marks[mark_rows[at]] for at in np.flatnonzero(is_marked)}
    return pa.RecordBatch.from_arrays(arrays, names=names), unchanged


def _buffer(size: int) -> Bytes:
    """Return memory of Arrow's pool, which keeps that of earlier parts: fresh pages cost as much as the copying."""
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def _check_text(array: pa.Array, column: str, starts: Longs) -> None:
    """Raise DamagedError unless all texts are UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as refusal:
        for row, text in enumerate(array.cast(pa.large_binary()).to_pylist()):
            try:
                (text or b"").decode()
            except UnicodeDecodeError:
                there = f"the bytes {text[:32].hex(' ')} of column {column!r} in the row"
                raise damage(int(starts[row]), there, "a text in UTF-8") from refusal
        raise


@kernel
def _fault(place: Longs, at: Long, number: Long, code: int) -> int:
    place[0] = at
    place[1] = number
    return code


@kernel
def _size_at(data: Bytes, at: Long) -> Long:
    return (
        (np.int64(data[at]) << 24)
        | (np.int64(data[at + 1]) << 16)
        | (np.int64(data[at + 2]) << 8)
        | np.int64(data[at + 3])
    )


@kernel
def _measure_tuple(
    data: Bytes, start: Long, end: Long, columns: int,
    sizes: Longs, values: Longs, marks: Longs, place: Longs,
) -> int:  # fmt: skip
    """Check a tuple and add up its sizes; place[0] becomes the offset behind it. Returns a code."""
    if start + 2 > end:
        return _fault(place, start, end - start, _CUT)
    count = (np.int64(data[start]) << 8) | np.int64(data[start + 1])
    if count != columns:
        return _fault(place, start, count, _NO_COUNT)
    at = start + 2
    for column in range(columns):
        if at >= end:
            return _fault(place, at, 0, _CUT)
        mark = data[at]
        if mark == _TEXT:
            if at + 5 > end:
                return _fault(place, at, end - at, _CUT)
            size = np.int64(_size_at(data, at + 1))
            at += 5
            if size > end - at:
                return _fault(place, at - 4, size, _NO_SIZE)
            at += size
            sizes[column] += size
            values[column] += 1
        elif mark in (_NULL, _UNCHANGED):
            at += 1
            if mark == _UNCHANGED:
                marks[column] += 1
        else:
            return _fault(place, at, np.int64(mark), _NO_VALUE)
    place[0] = at
    return _FINE


@kernel
def _measure(
    data: Bytes, starts: Longs, ends: Longs, kinds: Bytes, columns: int, old_rows: Bytes,
    new_starts: Longs, new_sizes: Longs, new_values: Longs, new_marks: Longs,
    old_starts: Longs, old_sizes: Longs, old_values: Longs, old_marks: Longs,
    place: Longs,
) -> int:  # fmt: skip
    """Check the rows of changes, find their tuples, and add up the sizes of each column. Returns a code."""
    for row in range(len(starts)):
        new_starts[row] = _NO_ROW
        old_starts[row] = _NO_ROW
        if kinds[row] == _T:
            continue
        at, end = starts[row] + 5, ends[row]
        letter = data[at]
        if letter in (_K, _O):
            if kinds[row] == _I:
                return _fault(place, at, np.int64(letter), _NO_NEW)
            old_rows[row] = letter
            old_starts[row] = at + 1
            code = _measure_tuple(
                data, at + 1, end, columns, old_sizes, old_values, old_marks, place
            )
            if code != _FINE:
                return code
            at = place[0]
        elif kinds[row] == _D:
            return _fault(place, at, np.int64(letter), _NO_OLD)
        if kinds[row] != _D:
            if at >= end:
                return _fault(place, at, 0, _CUT)
            if data[at] != _N:
                return _fault(place, at, np.int64(data[at]), _NO_NEW)
            new_starts[row] = at + 1
            code = _measure_tuple(
                data, at + 1, end, columns, new_sizes, new_values, new_marks, place
            )
            if code != _FINE:
                return code
            at = place[0]
        if at != end:
            return _fault(place, at, end - at, _NO_END)
    return _FINE


@kernel
def _fill(
    data: Bytes, starts: Longs, begins: Longs, offsets: Longs, bits: Bytes, values: Bytes,
    high: Bytes, mark_rows: Longs, marks: Flags,
) -> None:  # fmt: skip
    """Copy the tuples that begin at `starts` to columns. begins: int64[c], where a column's bytes begin in `values`.
    offsets: int64[c, n + 1], within a column. bits: validity, zeros before. high: an OR of a column's bytes.
    """
    columns = offsets.shape[0]
    for column in range(columns):
        offsets[column, 0] = 0
    for row in range(len(starts)):
        at = starts[row] + 2
        bit = np.uint8(1 << (row & 7))
        for column in range(columns):
            to = offsets[column, row]
            size = np.int64(0)
            if starts[row] != _NO_ROW:
                mark = data[at]
                at += 1
                if mark == _TEXT:
                    size = np.int64(_size_at(data, at))
                    at += 4
                    bits[column, row >> 3] |= bit
                    # Without a sign: an index that may be negative costs twice the time.
                    source, target = np.uint64(at), np.uint64(begins[column] + to)
                    seen = high[column]
                    for step in range(np.uint64(size)):
                        byte = data[source + step]
                        values[target + step] = byte
                        seen |= byte
                    high[column] = seen
                    at += size
                elif mark == _UNCHANGED:
                    marks[mark_rows[column], row] = True
            offsets[column, row + 1] = to + size
