"""What the schemas of records ask of a table: that it is there, has each column, and holds each type.

    record                        table                      done
    extra: int32                  no such column             column added, nullable
    n: int64                      n INT                      widened to BIGINT
    n: string                     n BIGINT                   nothing: a value that does not fit is a bad row

In: forms of records, columns of a table. Out: a `TableChange`. Pure. Raises nothing. Columns of the key keep their
type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from widetable_cdc.debezium.connect_schema import RecordForm
from widetable_cdc.debezium.value_form import value_form

_WIDTHS: Final = (
    (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")),
)


@dataclass(frozen=True)
class TableChange:
    """Columns to add, in their order, and columns with a wider type."""

    added: tuple[tuple[str, pa.DataType], ...]
    widened: tuple[tuple[str, pa.DataType], ...]

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.added or self.widened)


def table_change(
    forms: Sequence[RecordForm], columns: pa.Schema, key: Sequence[str]
) -> TableChange:
    """Return how a table must change for rows of these forms, the newest last."""
    there = {column.name: column.type for column in columns}
    added: dict[str, pa.DataType] = {}
    widened: dict[str, pa.DataType] = {}
    for form in forms:
        for column in form.columns:
            name, type = column.name, value_form(column.type).type
            type_now = widened.get(name) or added.get(name) or there.get(name)
            if type_now is None:
                added[name] = type
            elif name not in key and is_wider(type, type_now):
                (added if name in added else widened)[name] = type
    return TableChange(tuple(added.items()), tuple(widened.items()))


def is_wider(type: pa.DataType, than: pa.DataType) -> bool:
    """Return whether a type holds each value of another one, and more."""
    if pa.types.is_decimal(type) and pa.types.is_decimal(than):
        whole, part = type.precision - type.scale, type.scale
        is_as_wide = whole >= than.precision - than.scale and part >= than.scale
        return bool(is_as_wide and type.precision > than.precision)
    for widths in _WIDTHS:
        if type in widths and than in widths:
            return widths.index(type) > widths.index(than)
    return False


def new_columns(forms: Sequence[RecordForm], key: Sequence[str]) -> pa.Schema:
    """Return the columns of a new table, those of the key NOT NULL."""
    change = table_change(forms, pa.schema([]), key)
    return pa.schema([pa.field(name, type, name not in key) for name, type in change.added])
