"""Arrow tables as the JSON of java/Values.java, and back: the values of rows without loss.

A row is a list with its kind in front. Numbers of floats are their bits, NaNs of any kind among them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.schema.types import DataField, DataType, arrow_type, timestamp_unit

_BITS: Final = {"FLOAT": ("<f", "<i"), "DOUBLE": ("<d", "<q")}
_NANOSECONDS: Final = {"ms": 10**6, "us": 10**3, "ns": 1}
_EXACT: Final = Context(prec=50)


def json_rows(rows: pa.Table, fields: Sequence[DataField]) -> list[list[Any]]:
    """The rows with all columns of a table of these fields; absent ones are null, rows without a kind are +I."""
    columns = [
        _numbers(rows.column(field.name)).to_pylist()
        if field.name in rows.column_names
        else [None] * rows.num_rows
        for field in fields
    ]
    kinds = (
        rows.column(ROW_KIND_COLUMN).to_pylist()
        if ROW_KIND_COLUMN in rows.column_names
        else ["+I"] * rows.num_rows
    )
    return [
        [kind, *(_json(value, f.type) for value, f in zip(row, fields, strict=True))]
        for kind, *row in zip(kinds, *columns, strict=True)
    ]


def arrow_rows(rows: Sequence[Sequence[Any]], fields: Sequence[DataField]) -> pa.Table:
    """What Java gave, without the kinds."""
    columns = []
    for position, field in enumerate(fields, start=1):
        kind = arrow_type(field.type)
        values = [_value(row[position], field.type) for row in rows]
        columns.append(pa.array(values, number_type(kind)).cast(kind))
    return pa.Table.from_arrays(columns, names=[field.name for field in fields])


def number_type(kind: pa.DataType) -> pa.DataType:
    """The type with dates and times as their numbers: Python's types do not hold all of them."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_number_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_number_field(kind.key_field), _number_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_number_field(part) for part in kind])
    return kind


def _number_field(part: pa.Field) -> pa.Field:
    return part.with_type(number_type(part.type))


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(number_type(column.type))


def _json(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if kind.root in _BITS:
        as_float, as_int = _BITS[kind.root]
        return struct.unpack(as_int, struct.pack(as_float, value))[0]
    if kind.root == "DECIMAL":
        return str(int(value.scaleb(kind.scale, _EXACT)))
    if kind.root in ("BINARY", "VARBINARY"):
        return value.hex()
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        unit = _NANOSECONDS[timestamp_unit(kind.precision or 0)]
        return list(divmod(value * unit, 10**6))
    if kind.root == "ARRAY":
        assert kind.element is not None
        return [_json(item, kind.element) for item in value]
    if kind.root in ("MAP", "MULTISET"):
        key, item = kind.entry
        return [[_json(k, key), _json(v, item)] for k, v in value]
    if kind.root == "ROW":
        return [_json(value[field.name], field.type) for field in kind.fields]
    return value


def _value(json: Any, kind: DataType) -> Any:
    if json is None:
        return None
    if kind.root in _BITS:
        as_float, as_int = _BITS[kind.root]
        return struct.unpack(as_float, struct.pack(as_int, json))[0]
    if kind.root == "DECIMAL":
        return Decimal(json).scaleb(-(kind.scale or 0), _EXACT)
    if kind.root in ("BINARY", "VARBINARY"):
        return bytes.fromhex(json)
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        unit = _NANOSECONDS[timestamp_unit(kind.precision or 0)]
        return (json[0] * 10**6 + json[1]) // unit
    if kind.root == "ARRAY":
        assert kind.element is not None
        return [_value(item, kind.element) for item in json]
    if kind.root in ("MAP", "MULTISET"):
        key, item = kind.entry
        return [(_value(k, key), _value(v, item)) for k, v in json]
    if kind.root == "ROW":
        return {f.name: _value(item, f.type) for f, item in zip(kind.fields, json, strict=True)}
    return json
