"""A column as a running query planned it, of rows that are read with another schema: that of the snapshot which is
pinned now. Columns, and fields within them, are the same by id, whatever they are called there.

In: values with the type that the column has in the snapshot's schema. Out: values of the planned type. Raises
NotFoundError for a field that is not there any more, InvalidError for a value that the planned type does not hold.

    planned ROW<x, y>, ids 2 and 3       found ROW<z>, id 2, older than the plan     z as x, y null
                                         found ROW<z>, id 2, later                   NotFoundError: y was dropped
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from widetable.errors import NotFoundError
from widetable.format.column_cast import column_cast
from widetable.schema.types import DataField, DataType, arrow_type
from widetable.write.safe_cast import safe_cast


def planned_column(
    values: pa.Array, found: DataField, planned: DataField, *, is_later: bool
) -> pa.Array:
    """found: the column in the snapshot's schema. is_later: than the plan, so what it lacks was dropped."""
    if planned.type.is_nested:
        between = _between(found.type, planned.type, planned.name, is_later=is_later)
        cast = column_cast(values.type, found.type, between, f"column {planned.name!r}")
        values = values if cast is None else cast(values)
    return safe_cast(values, planned, arrow_type(planned.type))


def _between(found: DataType, planned: DataType, path: str, *, is_later: bool) -> DataType:
    """The planned fields, with the plain types that are found."""
    if planned.root == "ROW":
        before = {each.id: each.type for each in found.fields}
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
                    action="Start the query anew.",
                )
            fields.append(replace(each, type=each.type.as_nullable()))
        return replace(planned, fields=tuple(fields), nullable=found.nullable)
    if found.element is not None and planned.element is not None:
        element = _between(found.element, planned.element, f"{path}.element", is_later=is_later)
        return replace(found, element=element)
    if found.value is not None and planned.value is not None:
        value = _between(found.value, planned.value, f"{path}.value", is_later=is_later)
        return replace(found, value=value)
    return found
