"""Casts a column from the schema of the pinned snapshot to the schema with which a running query was planned. Columns,
and fields within them, are matched by id, whatever their names.

In: values with the type that the column has in the snapshot's schema. Out: values of the planned type. Raises
NotFoundError for a field that was dropped, InvalidError for a value that the planned type does not hold.

    planned ROW<x, y>, ids 2 and 3       read ROW<z>, id 2, older than the plan      z as x, y null
                                         read ROW<z>, id 2, later                    NotFoundError: y was dropped
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from widetable.errors import NotFoundError
from widetable.format.column_cast import column_cast
from widetable.messages.error_code import ErrorCode
from widetable.schema.types import DataField, DataType, arrow_type
from widetable.write.safe_cast import safe_cast


def planned_column(
    values: pa.Array, source: DataField, planned: DataField, *, is_later: bool
) -> pa.Array:
    """Cast values to the planned column. source: the column in the snapshot's schema.

    is_later: that schema is later than the plan, so a field that it lacks was dropped.
    """
    if planned.type.is_nested:
        between = _between(source.type, planned.type, planned.name, is_later=is_later)
        cast = column_cast(values.type, source.type, between, f"column {planned.name!r}")
        values = values if cast is None else cast(values)
    return safe_cast(values, planned, arrow_type(planned.type))


def _between(source: DataType, planned: DataType, path: str, *, is_later: bool) -> DataType:
    """Return a type with the planned fields and the plain types of the source."""
    if planned.root == "ROW":
        before = {each.id: each.type for each in source.fields}
        fields = []
        for each in planned.fields:
            name = f"{path}.{each.name}"
            if each.id in before:
                kind = _between(before[each.id], each.type, name, is_later=is_later)
                fields.append(replace(each, type=kind))
                continue
            if is_later:
                raise NotFoundError(
                    f"column {name!r} of the joined table",
                    found="no such field any more",
                    expected="the fields that it had when the query started",
                    action="Start the query again.",
                    code=ErrorCode.COLUMN_NOT_FOUND,
                )
            fields.append(replace(each, type=each.type.as_nullable()))
        return replace(planned, fields=tuple(fields), nullable=source.nullable)
    if source.element is not None and planned.element is not None:
        element = _between(source.element, planned.element, f"{path}.element", is_later=is_later)
        return replace(source, element=element)
    if source.value is not None and planned.value is not None:
        value = _between(source.value, planned.value, f"{path}.value", is_later=is_later)
        return replace(source, value=value)
    return source
