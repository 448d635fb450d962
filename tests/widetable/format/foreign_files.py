"""ORC and Avro data files of row batches, laid out as Paimon's Java lays them out: written by pyarrow's ORC and by
fastavro, whose readers the engine does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import orc

from widetable.format.data_file_meta import DataFileMeta
from widetable.schema.types import DataField, DataType


def write_orc(path: Path, rows: pa.Table, meta: DataFileMeta, **how: Any) -> DataFileMeta:
    """The rows as `path`, and its meta. how: of pyarrow's writer."""
    arrays = [_orc_array(column.combine_chunks()) for column in rows.columns]
    orc.write_table(pa.table(arrays, names=rows.column_names), path, **how)
    return _meta(path, meta)


def _meta(path: Path, meta: DataFileMeta) -> DataFileMeta:
    return meta._replace(file_name=path.name, file_size=path.stat().st_size)


def _orc_array(array: pa.Array) -> pa.Array:
    """TIME is an int in ORC."""
    kind = array.type
    if pa.types.is_time32(kind):
        return array.view(pa.int32())
    if pa.types.is_struct(kind):
        parts = [_orc_array(array.field(i)) for i in range(kind.num_fields)]
        fields = [f.with_type(part.type) for f, part in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if not pa.types.is_nested(kind):
        return array
    if pa.types.is_list(kind):
        child = _orc_array(array.values)
        target = pa.list_(kind.value_field.with_type(child.type))
    else:
        keys, items = _orc_array(array.keys), _orc_array(array.items)
        target = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        child = pa.StructArray.from_arrays(
            [keys, items], fields=[target.key_field, target.item_field]
        )
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[child]
    )


def write_avro(
    path: Path,
    rows: pa.Table,
    types: dict[str, DataType],
    meta: DataFileMeta,
    *,
    codec: str = "zstandard",
    block_bytes: int = 64_000,
) -> DataFileMeta:
    """The same in Avro. types: of the columns, system columns among them."""
    fields = tuple(DataField(i, name, kind) for i, (name, kind) in enumerate(types.items()))
    schema = _avro_type(DataType("ROW", nullable=False, fields=fields), "record")
    columns = [_python(rows.column(f.name).combine_chunks(), f.type) for f in fields]
    records = [dict(zip(types, values, strict=True)) for values in zip(*columns, strict=True)]
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec=codec, sync_interval=block_bytes)
    return _meta(path, meta)


_PLAIN = {
    "BOOLEAN": "boolean",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT"), "int"),
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    **dict.fromkeys(("CHAR", "VARCHAR"), "string"),
    **dict.fromkeys(("BINARY", "VARBINARY"), "bytes"),
}


def _avro_type(kind: DataType, name: str) -> Any:
    found = _core(kind, name)
    return ["null", found] if kind.nullable else found


def _core(kind: DataType, name: str) -> Any:
    if kind.root in _PLAIN:
        return _PLAIN[kind.root]
    if kind.root == "DECIMAL":
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if kind.root in ("DATE", "TIME"):
        return {"type": "int", "logicalType": "date" if kind.root == "DATE" else "time-millis"}
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        unit = "millis" if (kind.precision or 0) <= 3 else "micros"
        local = "local-" if kind.root == "TIMESTAMP_LTZ" else ""
        return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    if kind.root == "ROW":
        fields = [
            {"name": f.name, "type": _avro_type(f.type, f"{name}_{f.name}")} for f in kind.fields
        ]
        return {"type": "record", "name": name, "fields": fields}
    if kind.root == "ARRAY":
        assert kind.element is not None
        return {"type": "array", "items": _avro_type(kind.element, name)}
    key, value = _entry(kind)
    if key.root in ("CHAR", "VARCHAR"):
        return {"type": "map", "values": _avro_type(value, name)}
    entry = [
        {"name": "key", "type": _avro_type(key, f"{name}_key")},
        {"name": "value", "type": _avro_type(value, f"{name}_value")},
    ]
    items = {"type": "record", "name": name, "fields": entry}
    return {"type": "array", "items": items, "logicalType": "map"}


def _entry(kind: DataType) -> tuple[DataType, DataType]:
    key, value = (kind.key, kind.value) if kind.root == "MAP" else (kind.element, DataType("INT"))
    assert key is not None
    assert value is not None
    return key, value


class _Key(str):
    """A dict keeps equal ones apart: maps of drawn bits have keys twice."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _python(array: pa.Array, kind: DataType) -> list[Any]:
    """What fastavro's writer takes."""
    valid = array.is_valid().to_pylist()
    values = list(_values(array, kind))
    return [value if there else None for value, there in zip(values, valid, strict=True)]


def _values(array: pa.Array, kind: DataType) -> Iterator[Any]:
    found = array.type
    if pa.types.is_struct(found):
        columns = [_python(array.field(i), f.type) for i, f in enumerate(kind.fields)]
        names = [f.name for f in kind.fields]
        return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    if pa.types.is_list(found):
        assert kind.element is not None
        items = _python(array.values, kind.element)
        return _slices(array, items)
    if pa.types.is_map(found):
        key, value = _entry(kind)
        pairs = list(zip(_python(array.keys, key), _python(array.items, value), strict=True))
        if key.root in ("CHAR", "VARCHAR"):
            return ({_Key(k): v for k, v in each} for each in _slices(array, pairs))
        return ([{"key": k, "value": v} for k, v in each] for each in _slices(array, pairs))
    if pa.types.is_decimal(found):
        return map(_decimal_bytes, array.view(pa.binary(16)).to_pylist())
    if pa.types.is_temporal(found):
        array = array.view(pa.int32() if found.bit_width == 32 else pa.int64())
    return iter(array.to_pylist())


def _slices(array: pa.Array, items: list[Any]) -> Iterator[list[Any]]:
    ends = array.offsets.to_pylist()
    return (items[a:b] for a, b in pairwise(ends))


def _decimal_bytes(value: bytes | None) -> bytes | None:
    """Big-endian, as short as it goes."""
    if value is None:
        return None
    number = int.from_bytes(value, "little", signed=True)
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
