"""Bitmaps of columns: which rows of a data file have a value, and which are null.

On disk: never change (Paimon `BitmapFileIndex`, `BitmapFileIndexMetaV2`; integers are int32, big-endian):

    index   = version rows values null [null_place] blocks body     version, null: one byte; values: how many differ
    v1      = (value offset)*                                       all values, in any order; null_place = offset
    v2      = count (value offset)* body_offset block*              the first value of each block, and where it begins
    block   = count (value offset length)*                          ascending; null_place = offset length
    body    = bitmap*                                               Roaring bitmaps in their portable form
    value   = 1, 2, 4 or 8 bytes, or length bytes                   by its form (`indexed_values`)

The offset of a bitmap counts from the body, that of a block from the first one. A negative offset stands for a bitmap
of one row, which is -1 - offset. Version 2 is written, both are read. A reader of version 2 reads the head, one block
and one bitmap. Blocks are filled up to a size; a longer value has a block of its own.

    a b a null     rows 4, 2 values, null: -4 (row 3); one block: a at 0, b: -2 (row 1); body: {0, 2}

Raises DamagedError for bytes that are no such index.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from widetable.format.file_index.index_container import IndexPart
from widetable.format.file_index.indexed_values import indexed_values
from widetable.format.plain_value import FLOATS
from widetable.messages.counted import counted
from widetable.runtime.derived_value import derived_value
from widetable.schema.file_index_options import BitmapOption
from widetable.schema.types import DataType

_VERSION: Final = 2
_INT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">ii")
_CHUNK_BYTES: Final = 16 << 10
_MOST_SHORT: Final = 2**15 - 1
# Blocks of values in memory, for filters that name many.
_KEPT_BLOCKS: Final = 4
# The length of a bitmap of one row, which is nowhere.
_NO_LENGTH: Final = -1


class _Place(NamedTuple):
    """Where a bitmap is: a negative offset stands for one row. length: -1 if it is not recorded."""

    offset: int
    length: int


class BitmapBuilder:
    """Collects the values of a column. Memory: 4 bytes for each row, and the different values of each batch."""

    def __init__(self, option: BitmapOption, kind: DataType) -> None:
        self._option = option
        self._kind = kind
        self._columns: list[pa.DictionaryArray] = []

    def add(self, column: pa.Array) -> None:
        """Add the values of more rows."""
        self._columns.append(indexed_values(column, self._kind).dictionary_encode())

    def build(self) -> bytes:
        """Return the index."""
        values, rows_of, nulls, count = self._rows()
        encode = _encoder(self._kind)
        body = bytearray()
        null = b"\0"
        if len(nulls):
            data = BitMap(nulls).serialize()
            offset = -1 - int(nulls[0]) if len(nulls) == 1 else 0
            body += data if offset == 0 else b""
            null = b"\1" + _ENTRY.pack(offset, len(data))
        entries = []
        for value, rows in zip(values, rows_of, strict=True):
            place = _Place(-1 - int(rows[0]), _NO_LENGTH)
            if len(rows) > 1:
                data = BitMap(rows).serialize()
                place = _Place(len(body), len(data))
                body += data
            entries.append((encode(value), place))
        blocks = list(_blocks(entries, self._option.block_bytes))
        directory, at = bytearray(_INT.pack(len(blocks))), 0
        for first, block in blocks:
            directory += first + _INT.pack(at)
            at += len(block)
        head = bytes([_VERSION]) + _ENTRY.pack(count, len(entries)) + null
        return b"".join(
            (head, directory, _INT.pack(at), *(block for _, block in blocks), bytes(body))
        )

    def _rows(self) -> tuple[list[Any], list[np.ndarray], np.ndarray, int]:
        """Return the values in order, the rows of each, those of null, and the number of rows."""
        whole = pa.chunked_array(self._columns).unify_dictionaries()
        dictionary = whole.chunk(0).dictionary
        codes = np.concatenate(
            [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in whole.chunks]
        )
        if len(dictionary) <= _MOST_SHORT:
            codes = codes.astype(np.int16)  # numpy sorts these by their digits, seven times as fast
        order = np.argsort(codes, kind="stable").astype(np.uint32)
        starts = np.searchsorted(codes[order], np.arange(len(dictionary) + 1))
        values = dictionary.to_pylist()
        ascending = sorted(range(len(values)), key=values.__getitem__)
        rows_of = [order[starts[code] : starts[code + 1]] for code in ascending]
        return [values[code] for code in ascending], rows_of, order[: starts[0]], len(codes)


def _blocks(
    entries: Sequence[tuple[bytes, _Place]], most_bytes: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the first value of each block, and the block."""
    at = 0
    while at < len(entries):
        block, first = bytearray(), at
        while at < len(entries):
            entry = entries[at][0] + _ENTRY.pack(*entries[at][1])
            if at > first and _INT.size + len(block) + len(entry) > most_bytes:
                break
            block += entry
            at += 1
        yield entries[first][0], _INT.pack(at - first) + block


class BitmapIndex:
    """The bitmaps of a column of a data file. rows: how many the file has."""

    def __init__(self, part: IndexPart, rows: int, kind: DataType) -> None:
        self._part = part
        self._rows = rows
        self._kind = kind

    def rows_with(self, values: pa.Array) -> BitMap | None:
        """Return the rows that have one of the values (`sought_values`), and perhaps more."""
        rows = BitMap()
        for value in values.to_pylist():
            rows |= self._rows_of(value)
        return rows

    def _rows_of(self, value: Any) -> BitMap:
        place = self._head.find(value)
        return BitMap() if place is None else self._bitmap(place)

    def null_rows(self) -> BitMap | None:
        """Return the rows that are null."""
        null = self._head.null
        return BitMap() if null is None else self._bitmap(null)

    def hidden_rows(self, values: pa.Array, first_row: int) -> int:
        """Return how many rows with these values, in the order of the file from a row on, a filter would not see."""
        encoded = values.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        hidden = 0
        for code, value in enumerate([None, *encoded.dictionary.to_pylist()], start=-1):
            rows = BitMap(np.flatnonzero(codes == code).astype(np.uint32)).shift(first_row)
            seen = self.null_rows() if value is None else self._rows_of(value)
            hidden += len(rows - (seen or BitMap()))
        return hidden

    @derived_value
    def _head(self) -> _Head:
        try:
            return _head(self._part, self._rows, self._kind)
        except (struct.error, ValueError) as cause:
            self._part.damaged(f"a bitmap index that does not decode: {cause}", "version 1 or 2")

    def _bitmap(self, place: _Place) -> BitMap:
        rows = BitMap([-1 - place.offset]) if place.offset < 0 else self._read(place)
        if rows and rows.max() >= self._rows:
            self._part.damaged(f"row {rows.max()}", f"rows of {counted(self._rows, 'row')}")
        return rows

    def _read(self, place: _Place) -> BitMap:
        at = self._head.body + place.offset
        length = self._part.length - at if place.length < 0 else place.length
        data = self._part.read(at, length)
        try:
            return BitMap.deserialize(data)
        except (ValueError, IndexError, OverflowError) as cause:
            self._part.damaged(f"a bitmap that does not decode: {cause}", "a Roaring bitmap")


class _Head(NamedTuple):
    """The head. null: the place of the bitmap of nulls. body: where the bitmaps begin. find: the place of a value."""

    null: _Place | None
    body: int
    find: Callable[[Any], _Place | None]


def _head(part: IndexPart, rows: int, kind: DataType) -> _Head:
    """Read the head of an index. Raises ValueError and struct.error for wrong bytes."""
    cursor = _Cursor(part)
    version = cursor.take(1)[0]
    if version not in (1, _VERSION):
        raise ValueError(f"version {version}")
    counted_rows, values = _ENTRY.unpack(cursor.take(_ENTRY.size))
    if counted_rows != rows:
        part.damaged(counted(counted_rows, "row"), f"{rows}, as the meta of the data file says")
    null = None
    if cursor.take(1)[0]:
        null = _Place(cursor.number(), cursor.number() if version == _VERSION else _NO_LENGTH)
    decode, order = _decoder(kind), _order(kind)
    if version == 1:
        places = {}
        for _ in range(values):
            value = decode(cursor)
            places[value] = _Place(cursor.number(), _NO_LENGTH)
        return _Head(null, cursor.at, places.get)
    firsts, starts = [], []
    for _ in range(cursor.number()):
        firsts.append(order(decode(cursor)))
        starts.append(cursor.number())
    body_offset = cursor.number()
    blocks = cursor.at

    ends = [*starts[1:], body_offset]
    parse = _parser(kind)

    @lru_cache(_KEPT_BLOCKS)
    def block(number: int) -> dict[Any, _Place]:
        data = part.read(blocks + starts[number], ends[number] - starts[number])
        try:
            return parse(data)
        except struct.error as cause:
            part.damaged(f"a block that does not decode: {cause}", "values and places")

    def find(value: Any) -> _Place | None:
        number = bisect_right(firsts, order(value)) - 1
        return None if number < 0 else block(number).get(value)

    return _Head(null, blocks + body_offset, find)


class _Cursor:
    """Reads an index from one place on, in chunks."""

    def __init__(self, part: IndexPart, at: int = 0) -> None:
        self.at = at
        self._part = part
        self._data, self._start = b"", at

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count < 0:
            raise ValueError(f"{count} bytes at {self.at}")
        at = self.at - self._start
        if at + count > len(self._data):
            size = max(count, min(_CHUNK_BYTES, self._part.length - self.at))
            self._data, self._start, at = self._part.read(self.at, size), self.at, 0
        self.at += count
        return self._data[at : at + count]

    def number(self) -> int:
        """Return the next int32."""
        return int.from_bytes(self.take(4), "big", signed=True)


_TEXTS: Final = ("CHAR", "VARCHAR")
# The letter of a number of each width in `struct`, and the types of these widths; others have 8 bytes.
_LETTERS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_WIDTHS: Final = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2} | dict.fromkeys(
    ("INT", "DATE", "TIME", "FLOAT"), 4
)


def _encoder(kind: DataType) -> Callable[[Any], bytes]:
    if kind.root in _TEXTS:
        return lambda value: _INT.pack(len(value)) + value
    return struct.Struct(f">{_LETTERS[_WIDTHS.get(kind.root, 8)]}").pack


def _decoder(kind: DataType) -> Callable[[_Cursor], Any]:
    if kind.root in _TEXTS:
        return lambda cursor: cursor.take(cursor.number())
    width = _WIDTHS.get(kind.root, 8)
    return lambda cursor: int.from_bytes(cursor.take(width), "big", signed=True)


def _parser(kind: DataType) -> Callable[[bytes], dict[Any, _Place]]:
    """Return a function from the bytes of a block to its values. It raises struct.error."""
    if kind.root in _TEXTS:
        return _texts
    entry = struct.Struct(f">{_LETTERS[_WIDTHS.get(kind.root, 8)]}ii")

    def numbers(block: bytes) -> dict[Any, _Place]:
        (count,) = _INT.unpack_from(block)
        if _INT.size + count * entry.size != len(block):
            raise struct.error(f"{count} values in {len(block)} bytes")
        entries = entry.iter_unpack(memoryview(block)[_INT.size :])
        return {value: _Place(offset, length) for value, offset, length in entries}

    return numbers


def _texts(block: bytes) -> dict[Any, _Place]:
    (count,), at = _INT.unpack_from(block), _INT.size
    places = {}
    for _ in range(count):
        (length,) = _INT.unpack_from(block, at)
        start = at + _INT.size
        at = start + length
        places[block[start:at]] = _Place(*_ENTRY.unpack_from(block, at))
        at += _ENTRY.size
    return places


def _order(kind: DataType) -> Callable[[Any], Any]:
    """Return the order of values in an index: floats, which are bits here, in Java's total order."""
    if kind.root not in FLOATS:
        return lambda value: value
    size = (1 << (8 * _WIDTHS.get(kind.root, 8) - 1)) - 1
    return lambda bits: bits if bits >= 0 else -(bits & size) - 1
