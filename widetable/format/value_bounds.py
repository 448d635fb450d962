"""The bounds of the values in a data file of an append table, from its entry in a manifest, by which scans skip files.

Source: Paimon `SimpleStats`, `SimpleStatsEvolution`; the bytes are those of `column_stats`. A column is matched by its
id in the schema of the file, and bounded only if its type is still the same. Floats are not bounded, as no range holds
a NaN; nor are binaries, whose bytes Java orders as signed numbers. Stats that do not fit their schema bound nothing: a
client that left some out must not hide rows. Pure. Raises DamagedError for rows that do not decode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from widetable.format.binary_row import decode_row
from widetable.format.column_stats import has_bounds
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.key_range import is_bounded
from widetable.format.plain_value import PlainValue
from widetable.schema.table_schema import TableSchema, file_column
from widetable.schema.types import DataField, DataType

# Decodes the place of a nested column, which is null.
_ANY: Final = DataType("BIGINT")
_ARITY_BYTES: Final = 4


class ValueRange(NamedTuple):
    """The bounds of a column in one file. low, high: plain values, None if unknown. nulls, values: whether some rows
    may be null, and some not.
    """

    low: PlainValue
    high: PlainValue
    nulls: bool
    values: bool


def value_bounds(
    file: DataFileMeta, file_schema: TableSchema, columns: Iterable[DataField]
) -> Mapping[str, ValueRange]:
    """Return the bounds of those of the columns whose bounds are known, by their names in the current schema."""
    names = file_schema.names if file.value_stats_cols is None else file.value_stats_cols
    stats, counts = file.value_stats, file.value_stats.null_counts
    if not names or not _has_arity(stats.min_values, len(names)) or len(counts) != len(names):
        return {}
    types = [
        file_schema.field(name).type if name in file_schema.by_name else _ANY for name in names
    ]
    types = [_ANY if each.is_nested else each for each in types]
    minima = decode_row(stats.min_values, types, file.file_name)
    maxima = decode_row(stats.max_values, types, file.file_name)
    place_of = {name: place for place, name in enumerate(names)}
    bounds = {}
    for column in columns:
        stored = file_column(column, file_schema)
        place = None if stored is None else place_of.get(stored.name)
        is_same = stored is not None and stored.type.as_nullable() == column.type.as_nullable()
        if place is None or not is_same:
            continue
        count = counts[place]
        has_values = count is None or count < file.row_count
        has_order = has_bounds(column.type) and is_bounded(column, file_schema)
        low, high = (minima[place], maxima[place]) if has_order else (None, None)
        bounds[column.name] = ValueRange(low, high, count != 0, has_values)
    return bounds


def _has_arity(row: bytes, arity: int) -> bool:
    return int.from_bytes(row[:_ARITY_BYTES], "big") == arity
