"""Minimum, maximum and null count of columns, in the form of manifests.

On disk: never change (Paimon `SimpleStats`, `SimpleStatsConverter`; format.md section 4):

    stats       = min_values max_values null_counts
    min_values  = BinaryRow with its arity in front, one field per column; a null field: unknown
    max_values  = like min_values
    null_counts = one long or null per column

Stats of key columns are exact: clients skip files by them. Stats of value columns are unknown (`value_stats`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from widetable.format.binary_row import EMPTY_ROW, encode_rows, null_row, with_arity
from widetable.schema.types import DataType, arrow_type


class Stats(NamedTuple):
    """One row of minima, one of maxima, and one null count or None per column."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


# Stats of no column.
EMPTY_STATS: Final = Stats(EMPTY_ROW, EMPTY_ROW, ())

# Unknown stats of up to so many columns are written out: 17 bytes per column, in every entry of the file.
MAX_UNKNOWN_COLUMNS: Final = 100


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


class KeyStats:
    """Collects the stats of key columns over the batches of a file. types: of the columns, in key order.

    It holds two values per batch and column, not the rows. Arrow's minimum ignores NaN, but
    Java orders it above all numbers; so a column with a NaN has unknown extremes.
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
            extremes = pc.min_max(column)
            self._minima[index].append(pa.repeat(extremes["min"], 1))
            self._maxima[index].append(pa.repeat(extremes["max"], 1))
            self._null_counts[index] += column.null_count
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                self._has_nan[index] = True

    def build(self) -> Stats:
        """Return the stats of all rows so far; a float column with a NaN has unknown extremes, as no range holds it."""
        rows = []
        for name, parts in (("min", self._minima), ("max", self._maxima)):
            columns = [self._extreme(name, index, part) for index, part in enumerate(parts)]
            row = encode_rows(columns, self._types).row(0)
            rows.append(with_arity(row, len(self._types)))
        return Stats(rows[0], rows[1], tuple(self._null_counts))

    def _extreme(self, name: str, index: int, parts: list[pa.Array]) -> pa.Array:
        kind = arrow_type(self._types[index])
        if self._has_nan[index] or not parts:
            return pa.nulls(1, kind)
        extreme = pc.min_max(pa.concat_arrays(parts))[name]
        if pa.types.is_floating(kind) and extreme.as_py() == 0.0:
            # Java orders -0.0 before 0.0, for Arrow they are equal: widen the range to hold both.
            return pa.array([-0.0 if name == "min" else 0.0], kind)
        return pa.repeat(extreme, 1)
