"""Minimum, maximum and null count of columns, in the form of manifests.

On disk: never change (Paimon `SimpleStats`, `SimpleStatsConverter`; format.md section 4):

    stats       = min_values max_values null_counts
    min_values  = BinaryRow with its arity in front, one field per column; a null field: unknown
    max_values  = like min_values
    null_counts = one long or null per column

Stats of key columns are exact: clients skip files by them. BINARY and VARBINARY have null counts only: Java compares
the bytes of bounds as signed numbers and would skip files that have the value (`has_bounds`). Stats of value columns
are unknown in tables with a key (`value_stats`), as a file may hold old values. In append tables they are known
(`ColumnStats`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from widetable.format.binary_row import EMPTY_ROW, encode_rows, null_row, with_arity
from widetable.schema.types import DataField, DataType, arrow_type


class Stats(NamedTuple):
    """One row of minima, one of maxima, and one null count or None per column."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


# Stats of no column.
EMPTY_STATS: Final = Stats(EMPTY_ROW, EMPTY_ROW, ())

# Unknown stats of up to so many columns are written out: 17 bytes per column, in every entry of the file.
MAX_UNKNOWN_COLUMNS: Final = 100
# A null of a nested column is as long as that of any number.
_ANY: Final = DataType("BIGINT")
_BINARIES: Final = ("BINARY", "VARBINARY")
# Texts of bounds have at most so many characters (Paimon `metadata.stats-mode`).
_MOST_CHARACTERS: Final = 16
_MOST_CHARACTERS_SORTED: Final = 128
_FIRST_SURROGATE, _AFTER_SURROGATES, _LAST_CHARACTER = 0xD800, 0xE000, 0x10FFFF


def unknown_stats(arity: int) -> Stats:
    """Return unknown stats of `arity` columns: no reader may skip a file by them."""
    row = null_row(arity)
    return Stats(row, row, (None,) * arity)


def value_stats(arity: int, *, old_readers: bool) -> tuple[Stats, tuple[str, ...] | None]:
    """Return (_VALUE_STATS, _VALUE_STATS_COLS) of a file with unknown stats of value columns.

    arity: columns of the schema that the file names, whatever the file holds. There are two forms:
    `unknown_stats` with the columns None, which every client reads correctly (0.9, HEAD, pypaimon); and EMPTY_STATS
    with no column, which costs nothing, but which clients before 1.0 take for stats of all columns, so that they drop
    files that a filter matches (format.md section 4). The first is used where old readers are supported, and as a
    precaution for tables of usual width; in a wide table it would make every entry as large as the table is wide.
    """
    if old_readers or arity <= MAX_UNKNOWN_COLUMNS:
        return unknown_stats(arity), None
    return EMPTY_STATS, ()


def has_bounds(kind: DataType) -> bool:
    """Whether all clients agree on the order of the bounds of a type that manifests have: not for nested ones, which
    have no order, nor for binaries.
    """
    return not kind.is_nested and kind.root not in _BINARIES


class KeyStats:
    """Collects the stats of key columns over the batches of a file. types: of the columns, in key order.

    It holds two values per batch and column, not the rows. Arrow's minimum ignores NaN, but
    Java orders it above all numbers; so a column with a NaN has unknown extremes, and so has a binary one.
    """

    def __init__(self, types: Sequence[DataType]) -> None:
        self._types = tuple(types)
        self._minima: list[list[pa.Array]] = [[] for _ in types]
        self._maxima: list[list[pa.Array]] = [[] for _ in types]
        self._null_counts = [0] * len(types)
        self._has_nan = [False] * len(types)

    def add(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        """Count more rows. columns: in key order, of the types' Arrow types."""
        for index, column in enumerate(columns):
            self._null_counts[index] += column.null_count
            if not has_bounds(self._types[index]):
                continue
            extremes = pc.min_max(column)
            self._minima[index].append(pa.repeat(extremes["min"], 1))
            self._maxima[index].append(pa.repeat(extremes["max"], 1))
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                self._has_nan[index] = True

    def build(self) -> Stats:
        """Return the stats of all rows so far."""
        rows = [
            with_arity(encode_rows(columns, self._types).row(0), len(self._types))
            for columns in self.extremes()
        ]
        return Stats(rows[0], rows[1], tuple(self._null_counts))

    def extremes(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return the minimum and the maximum of each column, arrays of one value. A float column with a NaN has unknown
        extremes, as no range holds it.
        """
        minima = [self._extreme("min", index, part) for index, part in enumerate(self._minima)]
        return minima, [
            self._extreme("max", index, part) for index, part in enumerate(self._maxima)
        ]

    def _extreme(self, name: str, index: int, parts: list[pa.Array]) -> pa.Array:
        kind = arrow_type(self._types[index])
        if self._has_nan[index] or not parts:
            return pa.nulls(1, kind)
        extreme = pc.min_max(pa.concat_arrays(parts))[name]
        if pa.types.is_floating(kind) and extreme.as_py() == 0.0:
            # Java orders -0.0 before 0.0, for Arrow they are equal: widen the range to hold both.
            return pa.array([-0.0 if name == "min" else 0.0], kind)
        return pa.repeat(extreme, 1)


class ColumnStats:
    """Collects the stats of columns that are no key, as other clients make them (Paimon `SimpleColStatsCollector`).

    fields: the columns, of any type; those without `has_bounds` have a null count only. The bounds of texts come from
    the footer of the file, as Arrow compares them anyway when it writes, and to compare them twice takes a tenth of the
    time. A long one is cut: its minimum to a prefix, its maximum to a prefix that is raised by one, so that both still
    bound all values. long: columns by which the file is sorted, whose prefixes are longer, because neighbours often
    begin alike.
    """

    def __init__(self, fields: Sequence[DataField], long: Collection[str] = ()) -> None:
        self._fields = tuple(fields)
        self._long = frozenset(long)
        self._texts = frozenset(f.name for f in fields if f.type.root in ("CHAR", "VARCHAR"))
        self._others = [f for f in fields if has_bounds(f.type) and f.name not in self._texts]
        self._extremes = KeyStats([field.type for field in self._others])
        self._null_counts = [0] * len(self._fields)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count more rows. A column that the batch lacks is null."""
        columns = {}
        for index, field in enumerate(self._fields):
            at = batch.schema.get_field_index(field.name)
            column = (
                pa.nulls(batch.num_rows, arrow_type(field.type)) if at < 0 else batch.column(at)
            )
            self._null_counts[index] += column.null_count
            columns[field.name] = column
        self._extremes.add([columns[field.name] for field in self._others])

    def build(self, footer: pq.FileMetaData) -> Stats:
        """Return the stats of all rows so far. footer: of the file that has them."""
        lows, highs = self._extremes.extremes()
        minima = {f.name: low for f, low in zip(self._others, lows, strict=True)}
        maxima = {f.name: high for f, high in zip(self._others, highs, strict=True)}
        for name, (low, high) in _text_bounds(footer, self._texts).items():
            length = _MOST_CHARACTERS_SORTED if name in self._long else _MOST_CHARACTERS
            kind = next(arrow_type(field.type) for field in self._fields if field.name == name)
            minima[name] = _cut_minimum(pa.array([low], pa.binary()).cast(kind), length)
            maxima[name] = _cut_maximum(pa.array([high], pa.binary()).cast(kind), length)
        return Stats(self._row(minima), self._row(maxima), tuple(self._null_counts))

    def _row(self, extremes: Mapping[str, pa.Array]) -> bytes:
        """Return a BinaryRow with the extremes of columns, and null for those without, among them nested ones."""
        columns, types = [], []
        for field in self._fields:
            kind = _ANY if field.type.is_nested else field.type
            columns.append(extremes.get(field.name, pa.nulls(1, arrow_type(kind))))
            types.append(kind)
        return with_arity(encode_rows(columns, types).row(0), len(types))


def _text_bounds(footer: pq.FileMetaData, names: Collection[str]) -> dict[str, tuple[bytes, bytes]]:
    """Return the bounds of columns of texts over all row groups, those that are known."""
    bounds: dict[str, tuple[bytes, bytes]] = {}
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    for at, name in enumerate(paths):
        # The field b of a column a and a column "a.b" have the same path.
        if name not in names or paths.count(name) > 1:
            continue
        chunks = [
            footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)
        ]
        if any(
            chunk is None or not (chunk.has_min_max or chunk.num_values == 0) for chunk in chunks
        ):
            continue
        filled = [chunk for chunk in chunks if chunk.has_min_max]
        if filled:
            bounds[name] = min(c.min_raw for c in filled), max(c.max_raw for c in filled)
    return bounds


def _cut_minimum(value: pa.Array, length: int) -> pa.Array:
    """Return a text of one row, cut to its first characters, which is not above it."""
    whole = value[0].as_py()
    if len(whole) <= length:
        return value
    return pa.array([whole[:length]], value.type)


def _cut_maximum(value: pa.Array, length: int) -> pa.Array:
    """Return a short text that is not below the text of one row; null if there is none."""
    whole = value[0].as_py()
    if len(whole) <= length:
        return value
    return pa.array([_raised_text(whole[:length])], value.type)


def _raised_text(prefix: str) -> str | None:
    """Return the prefix up to its last character that can be raised, raised by one; surrogates are no characters."""
    for at in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[at]) + 1
        point = _AFTER_SURROGATES if _FIRST_SURROGATE <= point < _AFTER_SURROGATES else point
        if point <= _LAST_CHARACTER:
            return prefix[:at] + chr(point)
    return None
