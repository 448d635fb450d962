"""The ids of columns and of the fields nested in them. Names do not identify a column: a column, or a field within one,
may be dropped and added again, or take the name of another one, and no snapshot records that. Pure.

    k BIGINT, r ROW<x BIGINT, y ARRAY<ROW<z BIGINT>>>
    {"k": 0, "r": [1, [["x", 2], ["y", [3, [["z", 4]]]]]], "gone": None}

It is part of fingerprints on disk: never change its form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType

# The field id, or [id, [[name, ids], ...]] for a column with nested fields. None for a missing column.
FieldIds: TypeAlias = int | list[Any] | None


def column_ids(schema: TableSchema, names: Iterable[str]) -> dict[str, FieldIds]:
    """Return the ids of each named column, as JSON holds them."""
    fields = {name: schema.by_name.get(name) for name in names}
    return {name: None if field is None else _ids(field) for name, field in fields.items()}


def _ids(field: DataField) -> FieldIds:
    nested = _nested_ids(field.type)
    return [field.id, nested] if nested else field.id


def _nested_ids(kind: DataType) -> list[list[Any]]:
    """Return name and ids of each field of the rows in a type, at any depth of lists and maps."""
    parts = (kind.key, kind.value, kind.element)
    own = [[each.name, _ids(each)] for each in kind.fields]
    return own + [each for part in parts if part is not None for each in _nested_ids(part)]
