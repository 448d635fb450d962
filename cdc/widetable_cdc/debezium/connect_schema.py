"""What the schema in a record of Kafka Connect's JSON converter says of the columns of a table.

    {"type": "struct", "fields": [{"field": "before", ...}, {"field": "after", "type": "struct", "fields": [
        {"field": "id", "type": "int64", "optional": false},
        {"field": "price", "type": "bytes", "optional": true, "name": "org.apache.kafka.connect.data.Decimal",
         "parameters": {"scale": "2", "connect.decimal.precision": "10"}}]}, ...]}

    record_form     id: int64, price: Decimal(10, 2)

In: the text of a schema, of a value or of a key. Out: the columns, in the order of the table. Pure. Raises InvalidError
for a schema of another form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from widetable import InvalidError


@dataclass(frozen=True)
class ConnectType:
    """A type of Kafka Connect. kind: such as int32, bytes, array. name: of the logical type, such as
    io.debezium.time.Date. scale, precision, length: its parameters. element: the type of the elements of an array.
    """

    kind: str
    name: str | None = None
    scale: int | None = None
    precision: int | None = None
    length: int | None = None
    element: ConnectType | None = None


@dataclass(frozen=True)
class RecordColumn:
    """A column of a record's row."""

    name: str
    type: ConnectType
    is_optional: bool


@dataclass(frozen=True)
class RecordForm:
    """The columns that the rows of a record have, in the order of the table."""

    columns: tuple[RecordColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def record_form(schema: str) -> RecordForm:
    """Return the columns that the schema of a record's value gives to `after` and `before`."""
    for field in _fields(_parsed(schema)):
        if field.get("field") in ("after", "before") and field.get("type") == "struct":
            return RecordForm(_columns(field))
    raise _refused("no struct named after or before")


def key_names(schema: str) -> tuple[str, ...]:
    """Return the columns of the key that the schema of a record's key names."""
    return tuple(column.name for column in _columns(_parsed(schema)))


def _parsed(schema: str) -> Mapping[str, Any]:
    value = json.loads(schema)
    return value if isinstance(value, dict) else _refuse(f"{schema[:100]}")


def _fields(struct: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = struct.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        _refuse(f"a {struct.get('type')} without a list of fields")
    return list(fields)


def _columns(struct: Mapping[str, Any]) -> tuple[RecordColumn, ...]:
    return tuple(
        RecordColumn(str(field.get("field")), _type(field), bool(field.get("optional")))
        for field in _fields(struct)
    )


def _type(field: Mapping[str, Any]) -> ConnectType:
    parameters = field.get("parameters") or {}
    items = field.get("items")
    return ConnectType(
        kind=str(field.get("type")),
        name=field.get("name"),
        scale=_number(parameters.get("scale")),
        precision=_number(parameters.get("connect.decimal.precision")),
        length=_number(parameters.get("length")),
        element=_type(items) if isinstance(items, dict) else None,
    )


def _number(text: Any) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _refuse(actual: str) -> NoReturn:
    raise _refused(actual)


def _refused(actual: str) -> InvalidError:
    return InvalidError(
        "schema of a Debezium record",
        found=actual,
        expected="a struct with the fields before, after and op, as Kafka Connect's JSON converter writes it",
        action="Set value.converter to org.apache.kafka.connect.json.JsonConverter, without a transform that flattens.",
    )
