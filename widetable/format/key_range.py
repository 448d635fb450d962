"""The smallest and largest key of a part of a data file: what readers of some keys may skip.

Values are plain (`plain_value`); a bound is None where nobody says. Pure. Raises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from widetable.format.plain_value import FLOATS, PlainValue
from widetable.schema.table_schema import TableSchema, file_column
from widetable.schema.types import DataField


@dataclass(frozen=True)
class KeyRange:
    """minima, maxima: of each trimmed key column by itself over the rows of the group.

    A key outside of a bound is in none of the rows; None bounds nothing. A key inside may still
    not be there.
    """

    rows: int
    minima: tuple[PlainValue, ...]
    maxima: tuple[PlainValue, ...]


def is_bounded(key: DataField, file_schema: TableSchema) -> bool:
    """Whether a range of the stored values is one of the column's: not of floats (no range holds a NaN).

    The type must be the same up to NOT NULL: a range of texts or shorter numbers, from before a
    change of type, is not one of what they become.
    """
    stored = file_column(key, file_schema)
    if stored is None or key.type.root in FLOATS:
        return False
    return stored.type.as_nullable() == key.type.as_nullable()
