"""Which columns something is made of, and which fields they have. Names do not say it: a column, or a field within one,
may be dropped and added again, or take the name of another one, and no snapshot tells of that. Pure.

    k BIGINT, r ROW<x BIGINT, y ARRAY<ROW<z BIGINT>>>
    {"k": 0, "r": [1, [["x", 2], ["y", [3, [["z", 4]]]]]], "gone": None}

It is part of fingerprints on disk: never change its form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType

# The field id; with fields within: [id, [[name, ids], ...]]. None for a column that is not there.
FieldIds: TypeAlias = int | list[Any] | None


def column_ids(schema: TableSchema, names: Iterable[str]) -> dict[str, FieldIds]:
    """The ids of each, as JSON holds them."""
    fields = {name: schema.by_name.get(name) for name in names}
    return {name: None if field is None else _ids(field) for name, field in fields.items()}


def _ids(field: DataField) -> FieldIds:
    within = _within(field.type)
    return [field.id, within] if within else field.id


def _within(kind: DataType) -> list[list[Any]]:
    """Of the rows in it, however deep in lists and maps."""
    parts = (kind.key, kind.value, kind.element)
    found = [[each.name, _ids(each)] for each in kind.fields]
    return found + [each for part in parts if part is not None for each in _within(part)]
