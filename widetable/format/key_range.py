"""The smallest and largest key of a part of a data file: what readers of some keys may skip.

Values are plain (`plain_value`); a bound is None where nobody says. Pure. Raises DamagedError for statistics of a meta
that do not decode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widetable.format.binary_row import decode_row
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.plain_value import FLOATS, PlainValue
from widetable.schema import TableSchema, file_column
from widetable.types import DataField


@dataclass(frozen=True)
class KeyRange:
    """minima, maxima: of each trimmed key column by itself over the rows of the group.

    A key outside of a bound is in none of the rows; None bounds nothing. A key inside may still
    not be there.
    """

    rows: int
    minima: tuple[PlainValue, ...]
    maxima: tuple[PlainValue, ...]


def whole_file_range(
    meta: DataFileMeta, keys: Sequence[DataField], file_schema: TableSchema, path: str
) -> KeyRange:
    """The range that the meta says. keys: the trimmed key of the current schema."""
    unknown = (None,) * len(keys)
    if not all(is_bounded(key, file_schema) for key in keys):
        return KeyRange(meta.row_count, unknown, unknown)
    types = [key.type for key in keys]
    minima = decode_row(meta.key_stats.min_values, types, f"_KEY_STATS of {path}")
    maxima = decode_row(meta.key_stats.max_values, types, f"_KEY_STATS of {path}")
    return KeyRange(meta.row_count, minima, maxima)


def is_bounded(key: DataField, file_schema: TableSchema) -> bool:
    """Whether a range of the stored values is one of the column's: not of floats (no range holds a NaN).

    The type must be the same up to NOT NULL: a range of texts or shorter numbers, from before a
    change of type, is not one of what they become.
    """
    stored = file_column(key, file_schema)
    if stored is None or key.type.root in FLOATS:
        return False
    return stored.type.as_nullable() == key.type.as_nullable()
