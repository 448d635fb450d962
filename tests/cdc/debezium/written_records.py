"""Records as Debezium's documentation shows them ("Data change events" of the PostgreSQL connector), made for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

UNAVAILABLE = "__debezium_unavailable_value"
# Columns of the acceptance cases: t(id int primary key, name varchar(20), big text).
T = (("id", "int32", False), ("name", "string", True), ("big", "string", True))
Column = tuple[str, str | dict[str, Any], bool]
Row = Mapping[str, Any]


def source(lsn: int | None) -> dict[str, Any]:
    return {
        "version": "3.6.3.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1795991452929,
        "snapshot": "false",
        "db": "postgres",
        "sequence": None if lsn is None else f'["{lsn}","{lsn}"]',
        "schema": "public",
        "table": "t",
        "txId": 763,
        "lsn": lsn,
        "xmin": None,
    }


def record(
    op: str,
    before: Row | None,
    after: Row | None,
    *,
    lsn: int | None = None,
    columns: Sequence[Column] | None = None,
) -> str:
    """A value. columns: with a schema of these, each with its Connect type."""
    payload = {"before": before, "after": after, "source": source(lsn), "op": op, "ts_ms": 1}
    if columns is None:
        return json.dumps(payload, separators=(",", ":"))
    return json.dumps(
        {"schema": schema(columns), "payload": payload}, separators=(",", ":"), ensure_ascii=False
    )


def schema(columns: Sequence[Column]) -> dict[str, Any]:
    fields = [field(*column) for column in columns]
    row = {"type": "struct", "fields": fields, "optional": True, "name": "shop.public.t.Value"}
    return {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"type": "string", "optional": False, "field": "op"},
        ],
        "optional": False,
        "name": "shop.public.t.Envelope",
    }


def field(name: str, kind: str | dict[str, Any], is_optional: bool) -> dict[str, Any]:
    described = {"type": kind} if isinstance(kind, str) else kind
    return {**described, "optional": is_optional, "field": name}


def key_of(id: int) -> str:
    return json.dumps({"id": id})
