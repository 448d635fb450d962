"""The merge vectors: facts about Paimon's own Java classes, as (schema, commits, expected rows).

tests/vectors/*.json, made from apache/paimon at commit 5dacde516b (August 2026): inputs, options and outputs only.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.models.model import Record, Row
from tests.support.models.plain_rows import python_values
from widetable.schema.table_schema import TableSchema
from widetable.schema.type_text import type_from_text
from widetable.schema.types import DataField, DataType, arrow_field, arrow_type

FOLDER = Path(__file__).resolve().parent.parent.parent / "vectors"


@dataclass(frozen=True)
class Case:
    """after, changelog: commit number, 1-based -> the whole table, its changes; error and phase only in error cases."""

    id: str
    kind: str
    schema: TableSchema
    commits: tuple[tuple[Record, ...], ...]
    after: dict[int, list[Row]]
    changelog: dict[int, list[Record]]
    unordered: tuple[str, ...]
    error: str
    phase: str


def cases(file: str) -> list[Case]:
    """The cases of one file, such as "deduplicate"."""
    body = json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))
    return [_case(json_case) for json_case in body["cases"]]


def _case(case: dict[str, Any]) -> Case:
    schema = _schema(case)

    def row_of(row: dict[str, Any]) -> Row:
        return {name: _value(value, schema.field(name).type) for name, value in row.items()}

    return Case(
        id=case["id"],
        kind=case["kind"],
        schema=schema,
        commits=tuple(
            tuple((record["kind"], row_of(record["row"])) for record in batch)
            for batch in case["batches"]
        ),
        after={int(n): [row_of(row) for row in rows] for n, rows in case.get("after", {}).items()},
        changelog={
            int(n): [(change["kind"], row_of(change["row"])) for change in changes]
            for n, changes in case.get("changelog", {}).items()
        },
        unordered=tuple(case.get("unordered_fields", ())),
        error=case.get("error", ""),
        phase=case.get("phase", ""),
    )


def _schema(case: dict[str, Any]) -> TableSchema:
    fields = [
        DataField(i, column["name"], _nullable(type_from_text(column["type"]), column["nullable"]))
        for i, column in enumerate(case["schema"])
    ]
    return TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=1000,
        partition_keys=tuple(case.get("partition_keys", ())),
        primary_keys=tuple(case["primary_key"]),
        options=dict(case["options"]),
    )


def _nullable(kind: DataType, nullable: bool) -> DataType:
    return kind.as_nullable() if nullable else kind.not_null()


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "DECIMAL": decimal.Decimal,
    "DATE": datetime.date.fromisoformat,
    "TIMESTAMP": datetime.datetime.fromisoformat,
    "TIMESTAMP_LTZ": datetime.datetime.fromisoformat,
}


def _value(json_value: Any, kind: DataType) -> Any:
    """As `python_values` gives it."""
    python = _python_value(json_value, kind)
    field = pa.field(arrow_field(DataField(0, "v", kind)).name, arrow_type(kind))
    return python_values(pa.array([python], field.type))[0]


def _python_value(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if kind.element is not None:
        return [_python_value(item, kind.element) for item in value]
    if kind.key is not None and kind.value is not None:
        return [(_python_value(k, kind.key), _python_value(v, kind.value)) for k, v in value]
    if kind.fields:
        return {f.name: _python_value(value.get(f.name), f.type) for f in kind.fields}
    if isinstance(value, str) and kind.root in _FROM_TEXT:
        return _FROM_TEXT[kind.root](value)
    return value
