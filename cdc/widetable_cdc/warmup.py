"""Calls every kernel of this package once, so that `widetable warmup` compiles them into the cache.

A part of PostgreSQL's log is decoded that has each kind of message (`log/message_index.py` has the grammar), its texts
become values of types that kernels read, and records of Debezium are applied to a table. Types of arguments matter
here, not amounts. Raises what these raise.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from widetable import Catalog
from widetable_cdc.debezium.debezium_apply import apply_debezium
from widetable_cdc.log.log_decoder import LogDecoder
from widetable_cdc.values.column_type import column_type
from widetable_cdc.values.source_type import SourceType

_OID: Final = 16_384
_TYPES: Final = {
    "id": SourceType(20, "int8"),
    "name": SourceType(25, "text"),
    "raw": SourceType(17, "bytea"),
    "numbers": SourceType(1007, "_int4", element=SourceType(23, "int4")),
    "words": SourceType(1009, "_text", element=SourceType(25, "text")),
    "parts": SourceType(1001, "_bytea", element=SourceType(17, "bytea")),
}
_ROW: Final = ("1", "a", r"\x00ff", "{1,NULL}", r'{"a \" b",c}', r'{"\\x00ff"}')
_UNCHANGED: Final = object()
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"


def exercise(catalog: Catalog) -> None:
    """Call the kernels. catalog: a temporary one."""
    _read_log()
    _apply_records(catalog)


def _read_log() -> None:
    # Memory of the log is mapped or of Python; its views are of one kind.
    (batch,) = LogDecoder().decode(_part()).batches
    for name, source in _TYPES.items():
        column_type(source).from_texts(batch.new.column(name))


def _part() -> bytes:
    row = _tuple(_ROW)
    key = _tuple(["1", *[None] * (len(_TYPES) - 1)])
    changed = _tuple(["1", None, _UNCHANGED, *_ROW[3:]])
    oid = struct.pack(">i", _OID)
    messages = [
        b"B" + struct.pack(">qqI", 900, 0, 7),
        _relation(),
        b"I" + oid + b"N" + row,
        b"U" + oid + b"K" + key + b"N" + changed,
        b"U" + oid + b"O" + row + b"N" + row,
        b"D" + oid + b"K" + key,
        b"T" + struct.pack(">ib", 1, 0) + oid,
        b"C" + struct.pack(">bqqq", 0, 900, 1000, 0),
    ]
    rows = (struct.pack(">hiqiIi", 3, 8, 900, 4, 7, len(message)) + message for message in messages)
    return _SIGNATURE + b"".join(rows) + _END


def _relation() -> bytes:
    head = b"R" + struct.pack(">i", _OID) + b"public\0t\0d" + struct.pack(">h", len(_TYPES))
    columns = (
        struct.pack(">b", name == "id") + name.encode() + b"\0" + struct.pack(">Ii", source.oid, -1)
        for name, source in _TYPES.items()
    )
    return head + b"".join(columns)


def _tuple(values: Sequence[Any]) -> bytes:
    parts = [struct.pack(">h", len(values))]
    for value in values:
        if value is None or value is _UNCHANGED:
            parts.append(b"n" if value is None else b"u")
        else:
            parts.append(b"t" + struct.pack(">i", len(value)) + value.encode())
    return b"".join(parts)


def _apply_records(catalog: Catalog) -> None:
    decimal = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    fields = [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "name", "type": "string", "optional": True},
        {"field": "raw", "type": "bytes", "optional": True},
        {"field": "price", "type": "bytes", "optional": True, **decimal},
        {"field": "share", "type": "double", "optional": True},
        {"field": "is_new", "type": "boolean", "optional": True},
        {
            "field": "words",
            "type": "array",
            "optional": True,
            "items": {"type": "string", "optional": True},
        },
    ]
    raw = base64.b64encode(b"\x00\xff").decode()
    row = {"id": 1, "name": 'a "é" \n', "raw": raw, "price": raw, "share": 0.5, "is_new": True}
    row["words"] = ["a", None]
    values = [
        _record(fields, "c", None, row),
        _record(fields, "u", row, {**row, "name": "__debezium_unavailable_value"}),
        _record(fields, "d", row, None),
        _record(fields, "c", None, row),
        "{",
    ]
    records = pa.table({"key": pa.nulls(len(values), pa.string()), "value": values})
    for identifier in (1, 2):
        apply_debezium(
            catalog,
            "warmup.debezium",
            records,
            commit_user="warmup",
            commit_identifier=identifier,
            key=["id"],
        )


def _record(
    fields: Sequence[dict[str, Any]],
    op: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> str:
    struct_of = {"type": "struct", "fields": list(fields), "optional": True}
    schema = {
        "type": "struct",
        "fields": [{**struct_of, "field": "before"}, {**struct_of, "field": "after"}],
        "optional": False,
    }
    payload = {"before": before, "after": after, "op": op, "source": {"lsn": 900}}
    return json.dumps({"schema": schema, "payload": payload})
