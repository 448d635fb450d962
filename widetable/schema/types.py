"""Paimon's logical types: parses and prints their JSON, and maps them to Arrow.

In: type text or object of a schema file (Paimon `DataTypeJsonParser`); out: `DataType` values.
Raises UnsupportedError for types that this version does not support (VARIANT, BLOB, VECTOR, GEOMETRY, ...),
InvalidError for text that is not a type.
It does not depend on files. STRING is VARCHAR(2147483647), BYTES is VARBINARY(2147483647).

    text                                  printed                              Arrow
    VARCHAR                               VARCHAR(1)                           string
    DECIMAL(5)                            DECIMAL(5, 0)                        decimal128(5, 0)
    TIMESTAMP                             TIMESTAMP(6)                         timestamp[us]
    TIMESTAMP(3) WITH LOCAL TIME ZONE     TIMESTAMP(3) WITH LOCAL TIME ZONE    timestamp[ms, tz=UTC]
    TIME(0)                               TIME(0)                              time32[ms]

Several Paimon types share an Arrow type (all lengths of text are string), so the mapping back is not
unique: the schema records the types of a table, and `types_from_arrow` is for new columns only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from widetable.errors import InvalidError, UnsupportedError

MAX_LENGTH: Final = 2147483647

# Roots whose text has no parameter; then, root -> the length if the text has none.
_PLAIN: Final = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE")
_SIZED: Final = {"CHAR": 1, "VARCHAR": 1, "BINARY": 1, "VARBINARY": 1}
_ALIASES: Final = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
MAX_DIGITS: Final = 38
# root -> the valid digits of the second in its text.
_SECOND_DIGITS: Final = dict.fromkeys(("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"), range(10))
# Readers of Parquet and of JSON recurse, so their stack limits the depth: `types_from_arrow.check_depth`.
MAX_NESTED: Final = 32
# Types of Paimon that this version refuses: UnsupportedError, while other texts raise InvalidError.
_LEFT_OUT: Final = ("VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY")
# Upper case, as Paimon writes it; `type_text` converts what users write.
_TEXT: Final = re.compile(
    r"^(?P<root>[A-Z_]+)\s*(?:\(\s*(?P<args>\d+(?:\s*,\s*\d+)?)\s*\))?"
    r"(?:\s+(?P<zone>WITHOUT|WITH LOCAL) TIME ZONE)?(?:(?P<notnull>\s+NOT)?\s+NULL)?$"
)
# root -> the words before TIME ZONE. Other roots have no zone.
_ZONES: Final = {"TIME": ("WITHOUT",), "TIMESTAMP": ("WITHOUT", "WITH LOCAL")}


@dataclass(frozen=True)
class DataType:
    """One logical type. `root` is Paimon's name; LTZ timestamps have the root TIMESTAMP_LTZ.

    length: CHAR, VARCHAR, BINARY, VARBINARY. precision: DECIMAL, TIME, TIMESTAMP, TIMESTAMP_LTZ (digits of the second).
    scale: DECIMAL. element: ARRAY, MULTISET. key, value: MAP. fields: ROW.

    Attributes that a root does not have are None, or (), so equal types compare equal. nullable belongs to
    the type, as in Paimon, and so to a column and to each part of a nested one. Equality includes ids,
    names and comments of nested fields (`without_comments`).
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    key: DataType | None = None
    value: DataType | None = None
    fields: tuple[DataField, ...] = ()

    # Both change this type only: the nullability of nested types stays.
    def not_null(self) -> DataType:
        return replace(self, nullable=False)

    def as_nullable(self) -> DataType:
        return self if self.nullable else replace(self, nullable=True)

    @property
    def is_nested(self) -> bool:
        """Whether the type has parts. Such a type cannot be a key, and CSV has no values of it."""
        return self.root in ("ARRAY", "MAP", "MULTISET", "ROW")

    @property
    def entry(self) -> tuple[DataType, DataType]:
        """The key and value of a MAP; for a MULTISET the element, and its count."""
        key = self.key or self.element
        assert key is not None
        return key, self.value or DataType("INT", nullable=False)

    def __str__(self) -> str:
        """Return a text for messages: SQL, or for nested types the JSON object (`type_text.text_of` returns SQL)."""
        json = type_to_json(self)
        return json if isinstance(json, str) else str(json)


@dataclass(frozen=True, init=False)
class DataField:
    """A column or a field of a ROW. `id` never changes in a column's life; names and types may.

    description: its comment. default: Paimon's default value, as text. It is stored unchanged; a table with one
    can be read, but not written (`write_batch`).
    """

    id: int
    name: str
    type: DataType
    description: str | None
    default: str | None

    def __init__(
        self,
        id: int,
        name: str,
        type: DataType,
        description: str | None = None,
        default: str | None = None,
    ) -> None:
        # A frozen class sets each attribute by a call: a third of the time to open a table of 5,000 columns.
        attributes = self.__dict__
        attributes["id"] = id
        attributes["name"] = name
        attributes["type"] = type
        attributes["description"] = description
        attributes["default"] = default


def without_comments(t: DataType) -> DataType:
    """Return the type without the comments of its fields, for comparisons."""
    return replace(
        t,
        element=None if t.element is None else without_comments(t.element),
        key=None if t.key is None else without_comments(t.key),
        value=None if t.value is None else without_comments(t.value),
        fields=tuple(replace(f, type=without_comments(f.type), description=None) for f in t.fields),
    )


def parse_type(json: str | dict[str, Any]) -> DataType:
    """Parse a type of a schema file. In: SQL text ("INT NOT NULL") or an object for nested types.

    Raises InvalidError for text that is not a type, UnsupportedError for an unsupported type, KeyError
    for an object that lacks a part; `schema_from_json` translates the KeyError to DamagedError.
    """
    return _parse_nested(json) if isinstance(json, dict) else _parse_text(json)


# A wide table has few types in thousands of columns. Cached types never change.
@lru_cache(maxsize=1024)
def _parse_text(text: str) -> DataType:
    match = _TEXT.match(text.strip())
    if match is None or match["zone"] not in (None, *_ZONES.get(match["root"], ())):
        raise _no_type(text)
    root = _ALIASES.get(match["root"], match["root"])
    args = [int(a) for a in match["args"].split(",")] if match["args"] else []
    if match["zone"] == "WITH LOCAL":
        root = "TIMESTAMP_LTZ"
    return _simple_type(text, root, args, nullable=match["notnull"] is None)


def _simple_type(text: str, root: str, args: list[int], *, nullable: bool) -> DataType:
    # text: the whole type, for messages. Defaults are those of Paimon's parser: a length of 1, DECIMAL(10, 0),
    # TIME(0), TIMESTAMP(6).
    if root in _PLAIN and not args:
        return DataType(root, nullable)
    if not _fits(root, args):
        raise _no_type(text)
    if root in _SIZED:
        return DataType(root, nullable, length=args[0] if args else _SIZED[root])
    if root in ("STRING", "BYTES"):
        return DataType("VARCHAR" if root == "STRING" else "VARBINARY", nullable, MAX_LENGTH)
    if root == "DECIMAL":
        precision, scale = [*args, 0][:2] if args else (10, 0)
        return DataType(root, nullable, precision=precision, scale=scale)
    if root in _SECOND_DIGITS:
        return DataType(root, nullable, precision=[*args, 0 if root == "TIME" else 6][0])
    if root in _LEFT_OUT:
        raise UnsupportedError(
            f"type {text!r}",
            found=f"the type {root}",
            expected="a type that this version reads and writes",
            action="Leave the column out of the table, or read the table with another client.",
        )
    raise _no_type(text)


def _fits(root: str, args: Sequence[int]) -> bool:
    """Return whether the arguments are in the ranges of Paimon's types. Roots without a range accept none."""
    if root == "DECIMAL" and args:
        return 1 <= args[0] <= MAX_DIGITS and all(scale <= args[0] for scale in args[1:])
    ranges = {**dict.fromkeys(_SIZED, range(1, MAX_LENGTH + 1)), **_SECOND_DIGITS}
    return len(args) < 2 and all(arg in ranges.get(root, ()) for arg in args)


def _parse_nested(json: dict[str, Any]) -> DataType:
    """Parse an object such as {"type": "ARRAY NOT NULL", "element": ..}."""
    root, _, rest = str(json.get("type", "")).partition(" ")
    nullable = rest != "NOT NULL"
    if rest not in ("", "NOT NULL"):
        raise _no_type(str(json))
    if root in ("ARRAY", "MULTISET"):
        return DataType(root, nullable, element=parse_type(json["element"]))
    if root == "MAP":
        return DataType(
            root, nullable, key=parse_type(json["key"]), value=parse_type(json["value"])
        )
    if root == "ROW":
        return DataType(root, nullable, fields=tuple(field_from_json(f) for f in json["fields"]))
    if root in _LEFT_OUT:
        return _simple_type(str(json), root, [], nullable=nullable)
    raise _no_type(str(json))


def _no_type(text: str) -> InvalidError:
    return InvalidError(
        f"type {text!r}",
        found="text that is not a type",
        expected="a Paimon type such as INT, DECIMAL(10, 2), STRING NOT NULL",
        action="Correct the type.",
    )


def type_to_json(t: DataType) -> str | dict[str, Any]:
    """Return the form of a type in a schema file (Paimon `DataType.serializeJson`).

        INT NOT NULL           "INT NOT NULL"
        ARRAY<INT> NOT NULL    {"type": "ARRAY NOT NULL", "element": "INT"}

    Parameters are always present, also those that are optional in a text.
    """
    suffix = "" if t.nullable else " NOT NULL"
    if t.root in ("ARRAY", "MULTISET"):
        assert t.element is not None
        return {"type": t.root + suffix, "element": type_to_json(t.element)}
    if t.root == "MAP":
        assert t.key is not None
        assert t.value is not None
        return {"type": t.root + suffix, "key": type_to_json(t.key), "value": type_to_json(t.value)}
    if t.root == "ROW":
        return {"type": t.root + suffix, "fields": [field_to_json(f) for f in t.fields]}
    return _simple_text(t) + suffix


def _simple_text(t: DataType) -> str:
    """Return the text of a plain type without its nullability. Paimon names the longest VARCHAR and VARBINARY."""
    if t.root == "VARCHAR" and t.length == MAX_LENGTH:
        return "STRING"
    if t.root == "VARBINARY" and t.length == MAX_LENGTH:
        return "BYTES"
    if t.root in _SIZED:
        return f"{t.root}({t.length})"
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.root == "TIMESTAMP_LTZ":
        return f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
    if t.root in ("TIME", "TIMESTAMP"):
        return f"{t.root}({t.precision})"
    return t.root


def field_from_json(json: dict[str, Any]) -> DataField:
    """Parse a column or ROW field of a schema file; its id is not changed."""
    return DataField(
        int(json["id"]),
        str(json["name"]),
        parse_type(json["type"]),
        json.get("description"),
        json.get("defaultValue"),
    )


def field_to_json(f: DataField) -> dict[str, Any]:
    """Return the form of a field in a schema file, without an absent description or default."""
    json: dict[str, Any] = {"id": f.id, "name": f.name, "type": type_to_json(f.type)}
    if f.description is not None:
        json["description"] = f.description
    if f.default is not None:
        json["defaultValue"] = f.default
    return json


_ARROW_PLAIN: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
}


def timestamp_unit(precision: int) -> str:
    """Return the Arrow unit of a timestamp by its digits: 0-3 ms, 4-6 us, 7-9 ns (format.md section 7)."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def arrow_type(t: DataType) -> pa.DataType:
    """Return the Arrow type for values of `t` in memory and in our Parquet files.

    A MULTISET is a map of its elements to their counts. Names of parts (element, key, value) are
    fixed: equal types must have equal names.
    """
    if t.root in _ARROW_PLAIN:
        return _ARROW_PLAIN[t.root]
    if t.root == "DECIMAL":
        return pa.decimal128(t.precision or 0, t.scale or 0)
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        zone = "UTC" if t.root == "TIMESTAMP_LTZ" else None
        return pa.timestamp(timestamp_unit(t.precision or 0), tz=zone)
    if t.root == "ROW":
        return pa.struct([arrow_field(f) for f in t.fields])
    if t.root == "ARRAY":
        assert t.element is not None
        return pa.list_(pa.field("element", arrow_type(t.element), t.element.nullable))
    key, value = t.entry
    return pa.map_(
        pa.field("key", arrow_type(key), nullable=False),
        pa.field("value", arrow_type(value), value.nullable),
    )


def arrow_field(f: DataField) -> pa.Field:
    """Return the name, Arrow type and nullability of a column, without Paimon's field id."""
    return pa.field(f.name, arrow_type(f.type), f.type.nullable)


def assign_field_ids(t: DataType, next_id: int) -> tuple[DataType, int]:
    """Return `t` with new ids of nested ROW fields, parents first, and the next free id (format.md section 2).

        ROW<a ROW<x INT>, b INT>, next_id 3    a 3, b 4, then x 5; 6 is next

    Ids are unique in the whole schema, not only in a ROW: a field is found in older files by its id.
    """
    if t.root == "ROW":
        first, next_id = next_id, next_id + len(t.fields)
        numbered = []
        for offset, f in enumerate(t.fields):
            inner, next_id = assign_field_ids(f.type, next_id)
            numbered.append(replace(f, id=first + offset, type=inner))
        return replace(t, fields=tuple(numbered)), next_id
    if t.element is not None:
        inner, next_id = assign_field_ids(t.element, next_id)
        return replace(t, element=inner), next_id
    if t.key is not None and t.value is not None:
        key, next_id = assign_field_ids(t.key, next_id)
        value, next_id = assign_field_ids(t.value, next_id)
        return replace(t, key=key, value=value), next_id
    return t, next_id
