"""Types and values of case files (tests/vectors/README.md) as pyarrow has them, and rows in one comparable form."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

Case = Mapping[str, Any]
Row = dict[str, Any]


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a Paimon type in SQL form, nested ones included. Lengths of strings are not kept."""
    text = text.strip().removesuffix(" NOT NULL")
    root, inner = _split_type(text)
    if inner is not None:
        return _nested_type(root, inner)
    arguments = [int(number) for number in re.findall(r"\d+", root.partition("(")[2])]
    name = root.partition("(")[0].strip()
    if name == "DECIMAL":
        precision, scale = [*arguments, 0][:2] if arguments else (10, 0)
        return pa.decimal128(precision, scale)
    if name.startswith("TIMESTAMP"):
        digits = arguments[0] if arguments else 6
        zone = "UTC" if "LTZ" in name or "LOCAL" in root else None
        return pa.timestamp("ms" if digits <= 3 else "us" if digits <= 6 else "ns", zone)
    return _PLAIN[name]


_PLAIN: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BYTES": pa.binary(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
}


def _split_type(text: str) -> tuple[str, str | None]:
    """(root, what stands between its angle brackets)."""
    if "<" not in text:
        return text, None
    root, _, rest = text.partition("<")
    return root.strip(), rest[: rest.rindex(">")]


def _nested_type(root: str, inner: str) -> pa.DataType:
    parts = list(_top_level_parts(inner))
    if root == "ARRAY":
        return pa.list_(arrow_type(inner))
    if root == "MAP":
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    if root == "ROW":
        named = (part.strip().partition(" ") for part in parts)
        return pa.struct([pa.field(name.strip("`"), arrow_type(kind)) for name, _, kind in named])
    raise ValueError(f"type {root}<{inner}>")


def _top_level_parts(text: str) -> Iterator[str]:
    depth, part = 0, ""
    for char in text:
        depth += char in "<(" and 1
        depth -= char in ">)" and 1
        if char == "," and depth == 0:
            yield part
            part = ""
        else:
            part += char
    yield part


def plain_value(value: Any, kind: pa.DataType) -> Any:
    """A value of a case file as pyarrow takes it for that type."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(str(value))
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(value)
    if pa.types.is_time(kind):
        return dt.time.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        moment = dt.datetime.fromisoformat(value)
        return moment.replace(tzinfo=dt.timezone.utc) if kind.tz else moment
    if pa.types.is_binary(kind):
        return bytes.fromhex(value)
    if pa.types.is_list(kind):
        return [plain_value(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(plain_value(k, kind.key_type), plain_value(v, kind.item_type)) for k, v in pairs]
    if pa.types.is_struct(kind):
        inner = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        return {name: plain_value(value.get(name), t) for name, t in inner.items()}
    return value


def column_types(case: Case) -> list[pa.Field | tuple[str, str]]:
    """The columns of a case's table, as `create_table` takes them: what Arrow has no type for by its text."""
    schema = case_schema(case)
    return [
        (c["name"], c["type"] + ("" if c["nullable"] else " NOT NULL"))
        if c["type"].startswith(("VARCHAR(", "CHAR("))
        else schema.field(c["name"])
        for c in case["schema"]
    ]


def case_schema(case: Case) -> pa.Schema:
    """The Arrow schema of a case's table."""
    return pa.schema(
        [pa.field(c["name"], arrow_type(c["type"]), c["nullable"]) for c in case["schema"]]
    )


def rows_of(rows: Sequence[Row], schema: pa.Schema, unordered: Sequence[str]) -> list[str]:
    """Rows of a case file, or of a scan, as sorted texts that are equal when the rows are."""
    return sorted(_row_text(row, schema, unordered) for row in rows)


def changes_of(
    changes: Sequence[tuple[str, Row]],
    schema: pa.Schema,
    key: Sequence[str],
    unordered: Sequence[str],
) -> list[str]:
    """Changes as texts, by key; those of one key stay in their order, which alone matters."""
    in_key_order = sorted(changes, key=lambda change: repr([change[1][name] for name in key]))
    return [f"{kind} {_row_text(row, schema, unordered)}" for kind, row in in_key_order]


def _row_text(row: Row, schema: pa.Schema, unordered: Sequence[str]) -> str:
    shown = {}
    for field in schema:
        value = row.get(field.name)
        in_any_order = field.name in unordered and isinstance(value, list)
        shown[field.name] = sorted(value or (), key=repr) if in_any_order else value
    return repr(shown)


def plain_rows(rows: Sequence[Row], schema: pa.Schema) -> list[Row]:
    """Rows of a case file as a scan of the same rows would give them."""
    columns = {
        f.name: pa.array([plain_value(row.get(f.name), f.type) for row in rows], f.type)
        for f in schema
    }
    names = list(columns)
    return [
        dict(zip(names, values, strict=True))
        for values in zip(*[c.to_pylist() for c in columns.values()], strict=True)
    ]
