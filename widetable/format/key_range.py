"""The smallest and largest key of a part of a data file, by which readers of some keys skip parts.

Values are plain (`plain_value`); an unknown bound is None. Pure. Raises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from widetable.format.plain_value import FLOATS, PlainValue
from widetable.schema.table_schema import TableSchema, file_column
from widetable.schema.types import DataField


@dataclass(frozen=True)
class KeyRange:
    """The bounds of a group of rows. minima, maxima: of each trimmed key column on its own, over these rows.

    A key outside of a bound is in none of the rows; None bounds nothing. A key within the bounds
    may still be absent.
    """

    rows: int
    minima: tuple[PlainValue, ...]
    maxima: tuple[PlainValue, ...]


def is_bounded(key: DataField, file_schema: TableSchema) -> bool:
    """Whether a range of the stored values is valid for the column's values: not for floats (no range holds a NaN).

    The type must be unchanged except NOT NULL: a range of texts or shorter numbers, from before a
    change of type, is not valid for the cast values.
    """
    stored = file_column(key, file_schema)
    if stored is None or key.type.root in FLOATS:
        return False
    return stored.type.as_nullable() == key.type.as_nullable()
