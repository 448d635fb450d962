"""The rows of a cache, mapped into memory: the places of their columns, and how rows are gathered.

    rows.arrow    = Arrow IPC file, uncompressed: row batches of the table's schema, in file order
    rows.layout   = starts offsets sizes           64-bit little-endian integers
    starts        = the batches' first rows, then the number of rows
    offsets       = per buffer, per batch: its first byte in rows.arrow, -1 for none (no row is null)
    sizes         = per buffer, per batch: its bytes
    rows.pages    = the checks of rows.arrow's pages (page_checks.py)

Buffers are those of the columns one after the other, in Arrow's order (validity, offsets, values; children follow).
The layout repeats what the IPC file contains, so that nothing needs to be parsed before it is checked. The files are
never written again once they are in place, and are unlinked, not truncated: a map stays whole.

In: a directory, the columns' types. Out: arrays; those of `RowMap.batch` lie in the map and keep it. Raises CacheFault
for damage and InvalidError for more bytes than a column of strings can hold.

One batch of a nullable INT and a STRING has five buffers, so with two batches

    starts     0 1000 1500
    offsets    5 rows of 2: validity and values of the INT; validity, offsets and values of the STRING

A column without nulls in a batch has no validity there, -1, and may have one in the next.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import InvalidError
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import is_bytes
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.page_checks import PageChecks, page_checks
from widetable_lookup.row_gather import (
    SPARE_BYTES,
    any_words,
    copy_bytes,
    gather_bits,
    gather_scattered,
    gather_values,
    locate_bytes,
)

ROWS: Final = "rows.arrow"
LAYOUT: Final = "rows.layout"
PAGES: Final = "rows.pages"

_UNSIGNED: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
# Below one row in so many, rows are gathered one by one. Measured (16 columns, 1 M rows in the page cache, ms
# for 4 K, 100 K, 150 K, 300 K, 900 K of them), by column 0.82, 10.2, 7.0, 7.9, 11.5, by row 0.30, 5.9, 6.9, 10.6, 31.
_SCATTERED: Final = 8
_BLOCK_ROWS: Final = 64
_MAX_COLUMN_BYTES: Final = 2**31 - 1
# For a batch without bytes of a kind: offsets that begin with 0, or values that nothing points to.
_NOTHING: Final = pa.py_buffer(bytes(64))

Bases = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class RowLayout:
    """The layout of a map. starts int64[b + 1]; offsets, sizes int64[buffers, b]."""

    starts: Positions
    offsets: Bases
    sizes: Bases

    def to_bytes(self) -> bytes:
        return b"".join(a.astype("<i8").tobytes() for a in (self.starts, self.offsets, self.sizes))


def layout_from_bytes(data: bytes, buffers: int) -> RowLayout:
    """Return the layout that the file contains. buffers: of a batch. Raises CacheFault for bytes of another size."""
    values = np.frombuffer(data[: len(data) // 8 * 8], "<i8")
    batches = (len(values) - 1) // (2 * buffers + 1)
    if len(data) != 8 * (batches + 1 + 2 * buffers * batches):
        raise CacheFault(f"{LAYOUT}: {len(data)} bytes fit no number of batches")
    offsets, sizes = values[batches + 1 :].reshape(2, buffers, batches)
    return RowLayout(values[: batches + 1], offsets, sizes)


def index_rows(directory: str, schema: pa.Schema) -> RowMap:
    """Write layout and page checks of a complete rows.arrow, and map it. Raises OSError."""
    path = f"{directory}/{ROWS}"
    checks = page_checks(_map(path)).astype("<u4").tobytes()
    with open(f"{directory}/{PAGES}", "xb") as file:
        file.write(checks)
    with pa.memory_map(path) as mapped:
        layout = _layout_of(mapped, schema.types)
    with open(f"{directory}/{LAYOUT}", "xb") as file:
        file.write(layout.to_bytes())
    return RowMap(directory, schema, checks, layout)


def _layout_of(mapped: pa.MemoryMappedFile, types: Sequence[pa.DataType]) -> RowLayout:
    """Return the layout, from the addresses of buffers less that of the file.

    Arrow does not tell where in a file a buffer lies, but it maps the file.
    """
    mapped.seek(0)
    first_address = mapped.read_buffer(mapped.size()).address
    reader = pa.ipc.open_file(mapped)
    buffers = sum(map(buffer_count, types))
    starts = np.zeros(reader.num_record_batches + 1, np.int64)
    offsets = np.full((buffers, reader.num_record_batches), -1, np.int64)
    sizes = np.zeros((buffers, reader.num_record_batches), np.int64)
    for index in range(reader.num_record_batches):
        batch = reader.get_batch(index)
        starts[index + 1] = starts[index] + batch.num_rows
        of_batch = [buffer for column in batch.columns for buffer in column.buffers()]
        for number, buffer in enumerate(of_batch):
            if buffer is not None and buffer.size:
                offsets[number, index] = buffer.address - first_address
                sizes[number, index] = buffer.size
    return RowLayout(starts, offsets, sizes)


@functools.lru_cache(1024)
def buffer_count(kind: pa.DataType) -> int:
    """Return how many buffers an array of this type has, including those of its children."""
    return len(pa.array([], kind).buffers())


@dataclass(frozen=True)
class _Group:
    """Columns that one call gathers. columns: numbers in the result; buffers: their first ones; bits, values:
    int64[columns, batches], where validity and values begin; items[batches, columns]: where values of whole bytes
    begin, counted in items of at most 8 bytes.
    """

    columns: tuple[int, ...]
    buffers: tuple[int, ...]
    bits: Bases
    values: Bases
    items: Bases
    width_bits: int


@dataclass(frozen=True)
class ColumnChoice:
    """Some columns of a map, grouped by how they are gathered. types: in the order of the result."""

    types: tuple[pa.DataType, ...]
    fixed: tuple[_Group, ...]
    bytes: _Group
    nested: _Group
    nullable: _Group


class RowMap:
    """The mapped rows of one cache. Threads may share it; it is unmapped with the last reference."""

    def __init__(self, directory: str, schema: pa.Schema, checks: bytes, layout: RowLayout) -> None:
        """schema: of the batches. checks: the content of rows.pages."""
        path = f"{directory}/{ROWS}"
        self._path = path
        self._schema = schema
        self.data = _map(path)
        self.words = any_words(self.data)
        self._items = {width: _items(self.data, width) for width in _UNSIGNED}
        self.layout = layout
        self.pages = _checked_pages(path, self.data, checks, layout)
        counts = [buffer_count(kind) for kind in schema.types]
        self._first_buffer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        if len(layout.offsets) != self._first_buffer[-1]:
            raise CacheFault(f"{path}: {len(layout.offsets)} buffers, not those of its columns")

    @property
    def rows(self) -> int:
        return int(self.layout.starts[-1])

    @property
    def batches(self) -> int:
        return len(self.layout.starts) - 1

    def batch(self, index: int, names: Sequence[str]) -> list[pa.Array]:
        """Return these columns of one batch, as they lie in the map; their pages are checked before.

        Nothing is copied: the arrays keep the file mapped, even after it has been unlinked.
        """
        rows = int(self.layout.starts[index + 1] - self.layout.starts[index])
        return [
            self._array(self._schema.field(name).type, rows, self.first_buffer(name), index)
            for name in names
        ]

    def first_buffer(self, name: str) -> int:
        """Return the number of the column's first buffer."""
        return int(self._first_buffer[self._schema.get_field_index(name)])

    def items(self, width_bits: int) -> npt.NDArray[Any]:
        """Return the file as unsigned numbers of a width."""
        return self._items[width_bits]

    def choose(self, names: Sequence[str]) -> ColumnChoice:
        """Return which calls gather these columns. It is made once for many `take`s."""
        types = tuple(self._schema.field(name).type for name in names)
        firsts = [self.first_buffer(name) for name in names]
        by_width: dict[int, list[int]] = {}
        of_bytes, nested, nullable = [], [], []
        for column, kind in enumerate(types):
            if pa.types.is_nested(kind):
                nested.append(column)
                continue
            if (self.layout.offsets[firsts[column]] >= 0).any():
                nullable.append(column)
            if is_bytes(kind):
                of_bytes.append(column)
            else:
                by_width.setdefault(kind.bit_width, []).append(column)

        def group(columns: Sequence[int], width_bits: int = 0) -> _Group:
            buffers = [firsts[column] for column in columns]
            first = np.array(buffers, np.int64)
            offsets = self.layout.offsets
            # Nested columns may have one buffer, and the place of their values is not needed.
            values = offsets[np.minimum(first + 1, len(offsets) - 1)]
            items = (values // max(1, min(width_bits, 64) // 8)).T.copy()
            return _Group(tuple(columns), tuple(buffers), offsets[first], values, items, width_bits)

        fixed = tuple(group(columns, width) for width, columns in sorted(by_width.items()))
        return ColumnChoice(types, fixed, group(of_bytes), group(nested), group(nullable))

    def take(self, choice: ColumnChoice, positions: Positions) -> list[pa.Array]:
        """Return the rows at ascending positions, column by column; their pages are checked before.

        The arrays are new, in the order of the choice, and do not keep the map. A validity bitmap is left out if no
        chosen row is null. The strings of one column may have 2 GiB at most.
        """
        count, cuts = len(positions), self._cuts(positions)
        validity = self._take_validity(choice.nullable, positions, cuts)
        columns: list[pa.Array] = [None] * len(choice.types)

        def put(column: int, *values: npt.NDArray[Any]) -> None:
            bits, nulls = validity.get(column, (None, 0))
            buffers, kind = [bits, *map(pa.py_buffer, values)], choice.types[column]
            columns[column] = pa.Array.from_buffers(kind, count, buffers, null_count=nulls)

        for group in choice.fixed:
            for column, values in zip(
                group.columns, self._take_fixed(group, positions, cuts), strict=True
            ):
                put(column, values)
        for column, buffer in zip(choice.bytes.columns, choice.bytes.buffers, strict=True):
            put(column, *self._take_bytes(buffer, positions, cuts))
        for column, buffer in zip(choice.nested.columns, choice.nested.buffers, strict=True):
            columns[column] = self._take_nested(choice.types[column], buffer, positions)
        return columns

    def _take_validity(
        self, group: _Group, positions: Positions, cuts: Positions
    ) -> dict[int, tuple[pa.Buffer | None, int]]:
        """Return bitmap and number of nulls, by column."""
        if not group.columns:
            return {}
        bits, ones = self._take_bits(group.bits, positions, cuts)
        nulls = (len(positions) - ones).tolist()
        return {
            column: (pa.py_buffer(bits[number]) if count else None, count)
            for number, (column, count) in enumerate(zip(group.columns, nulls, strict=True))
        }

    def _take_bits(
        self, bases: Bases, positions: Positions, cuts: Positions
    ) -> tuple[Bytes, npt.NDArray[np.int64]]:
        starts = self.layout.starts
        self.pages.check_values(bases, starts, positions, 1)
        bits = np.zeros((len(bases), (len(positions) + 7) // 8), np.uint8)
        ones = np.zeros(len(bases), np.int64)
        gather_bits(self.data, bases, starts, cuts, positions, bits, ones)
        return bits, ones

    def _take_fixed(self, group: _Group, positions: Positions, cuts: Positions) -> npt.NDArray[Any]:
        """Return one row for each column: its values, or its bits."""
        width_bits = group.width_bits
        if width_bits == 1:
            return self._take_bits(group.values, positions, cuts)[0]
        bases, starts = group.values, self.layout.starts
        self.pages.check_values(bases, starts, positions, width_bits)
        items = max(1, width_bits // 64)
        source = self.items(width_bits // items)
        out = np.empty((len(bases), len(positions) * items), source.dtype)
        if len(positions) * _SCATTERED < self.rows:
            block = np.empty((_BLOCK_ROWS, len(bases) * items), source.dtype)
            gather_scattered(source, group.items, starts, cuts, positions, items, block, out)
        else:
            at = np.ascontiguousarray(group.items.T)
            gather_values(source, at, starts, cuts, positions, items, out)
        return out

    def locate(
        self, buffer: int, positions: Positions, cuts: Positions | None = None
    ) -> tuple[Positions, Positions, int]:
        """Return where the values of a column of bytes lie, and the total bytes. Offsets and values are checked.

        cuts: of the positions, if they are known.
        """
        starts, offsets = self.layout.starts, self.layout.offsets
        bases = offsets[buffer + 1]
        self.pages.check_values(bases.reshape(1, -1), starts, positions, 32, span_bits=64)
        first, end = np.empty((2, len(positions)), np.int64)
        data_bases = np.maximum(offsets[buffer + 2], 0)
        items = self.items(32).view(np.int32)
        cuts = self._cuts(positions) if cuts is None else cuts
        size = locate_bytes(items, bases // 4, data_bases, starts, cuts, positions, first, end)
        self.pages.check_ranges(first, end)
        return first, end, size

    def _cuts(self, positions: Positions) -> Positions:
        """Return which of the positions lie in each batch."""
        return np.searchsorted(positions, self.layout.starts)

    def _take_bytes(
        self, buffer: int, positions: Positions, cuts: Positions
    ) -> tuple[npt.NDArray[np.int32], Bytes]:
        first, end, size = self.locate(buffer, positions, cuts)
        if size > _MAX_COLUMN_BYTES:
            raise InvalidError(
                "lookup",
                found=f"{size} bytes of one column for {len(positions)} keys",
                expected=f"at most {_MAX_COLUMN_BYTES}",
                action="Look up fewer keys at a time.",
            )
        offsets = np.empty(len(positions) + 1, np.int32)
        values = np.empty(size + SPARE_BYTES, np.uint8)
        copy_bytes(self.words, first, end, offsets, any_words(values))
        return offsets, values[:size]

    def _take_nested(self, kind: pa.DataType, buffer: int, positions: Positions) -> pa.Array:
        """Gather a nested column with Arrow, batch by batch: the whole column of a batch is checked."""
        starts, cuts = self.layout.starts, self._cuts(positions)
        parts = [pa.array([], kind)]
        for batch in np.flatnonzero(np.diff(cuts)):
            chosen = positions[cuts[batch] : cuts[batch + 1]] - starts[batch]
            rows = int(starts[batch + 1] - starts[batch])
            parts.append(self._array(kind, rows, buffer, int(batch)).take(pa.array(chosen)))
        return pa.concat_arrays(parts)

    def _array(self, kind: pa.DataType, rows: int, buffer: int, batch: int) -> pa.Array:
        """One column of one batch, as it lies in the map."""
        count = buffer_count(kind)
        first = self.layout.offsets[buffer : buffer + count, batch]
        sizes = self.layout.sizes[buffer : buffer + count, batch]
        self.pages.check_ranges(first, first + sizes)
        buffers = [
            pa.py_buffer(self.data[at : at + size]) if at >= 0 else None
            for at, size in zip(first.tolist(), sizes.tolist(), strict=True)
        ]
        return _rebuilt(kind, rows, iter(buffers))


def _checked_pages(path: str, data: Bytes, checks: bytes, layout: RowLayout) -> PageChecks:
    is_stored = layout.offsets >= 0
    first = layout.offsets[is_stored]
    end = first + layout.sizes[is_stored]
    if len(checks) % 4 or (
        len(end) and (layout.sizes[is_stored].min() < 1 or end.max() > len(data))
    ):
        raise CacheFault(f"{path}: {LAYOUT} or {PAGES} are not those of its {len(data)} bytes")
    return PageChecks(path, data, np.frombuffer(checks, "<u4"), first, end)


def _rebuilt(kind: pa.DataType, rows: int, buffers: Iterator[pa.Buffer | None]) -> pa.Array:
    """Make an array from its buffers, children after their parent."""
    own: list[pa.Buffer | None] = [next(buffers)]
    if pa.types.is_struct(kind):
        children = [_rebuilt(kind.field(i).type, rows, buffers) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, rows, own, children=children)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = next(buffers) or _NOTHING
        length = int(np.frombuffer(offsets, np.int32)[rows])
        is_list = pa.types.is_list(kind)
        inner = kind.value_type if is_list else pa.struct([kind.key_field, kind.item_field])
        children = [_rebuilt(inner, length, buffers)]
        return pa.Array.from_buffers(kind, rows, [*own, offsets], children=children)
    own += [next(buffers) or _NOTHING for _ in range(buffer_count(kind) - 1)]
    return pa.Array.from_buffers(kind, rows, own)


def _items(data: Bytes, width_bits: int) -> npt.NDArray[Any]:
    size = width_bits // 8
    return data[: len(data) // size * size].view(_UNSIGNED[width_bits])


def _map(path: str) -> Bytes:
    """The file's bytes, read-only. Raises OSError, CacheFault for an empty file."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise CacheFault(f"{path}: empty")
        return np.frombuffer(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ), np.uint8)
