"""A column's type from a text of SQL: INT, VARCHAR(10) NOT NULL, ARRAY<STRING>, MAP<INT, ROW<a INT, b STRING>>.

    type   := plain ["NOT NULL"] | outer "<" parts ">" ["NOT NULL"]
    parts  := type | key "," value | name type { "," name type }

Words are of any case, names of fields as they are written. Plain types: `types.parse_type`. Raises InvalidError for
text that is no type, UnsupportedError for types that no table has.
"""

from __future__ import annotations

import re
from typing import Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.types import DataField, DataType, parse_type

_NESTED: Final = re.compile(
    r"(ARRAY|MULTISET|MAP|ROW|STRUCT)\s*<(.*)>\s*(NOT\s+NULL)?", re.DOTALL | re.IGNORECASE
)
_FIELD: Final = re.compile(r"\s*(?:`([^`]+)`|(\w+))[\s:]+(.*)", re.DOTALL)


def type_from_text(text: str) -> DataType:
    """The type; fields of rows are numbered from 0 on."""
    match = _NESTED.fullmatch(text.strip())
    if match is None:
        try:
            return parse_type(re.sub(r"\s+", " ", text.strip()).upper())
        except (InvalidError, UnsupportedError) as cause:  # of another spelling
            raise type(cause)(
                f"type {text.strip()!r}",
                found=cause.found,
                expected=cause.expected,
                action=cause.action,
            ) from cause
    root, parts, nullable = match[1].upper(), _parts(match[2]), match[3] is None
    if root in ("ROW", "STRUCT"):
        fields = (_field(at, part, text) for at, part in enumerate(parts))
        return DataType("ROW", nullable, fields=tuple(fields))
    if len(parts) != (2 if root == "MAP" else 1):
        raise _no_type(text)
    first, last = type_from_text(parts[0]), type_from_text(parts[-1])
    if root == "MAP":
        return DataType(root, nullable, key=first.not_null(), value=last)
    return DataType(root, nullable, element=first)


def text_of(kind: DataType) -> str:
    """The text of a type; `type_from_text` reads it."""
    null = "" if kind.nullable else " NOT NULL"
    if kind.element is not None:
        return f"{kind.root}<{text_of(kind.element)}>{null}"
    if kind.key is not None and kind.value is not None:
        return f"{kind.root}<{text_of(kind.key)}, {text_of(kind.value)}>{null}"
    if kind.root == "ROW":
        fields = (f"`{field.name}` {text_of(field.type)}" for field in kind.fields)
        return f"{kind.root}<{', '.join(fields)}>{null}"
    return str(kind)


def _field(at: int, part: str, text: str) -> DataField:
    match = _FIELD.fullmatch(part)
    if match is None:
        raise _no_type(text)
    return DataField(at, match[1] or match[2], type_from_text(match[3]))


def _parts(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _no_type(text: str) -> InvalidError:
    return InvalidError(
        f"type {text!r}",
        found="text that is no type",
        expected="such as INT, DECIMAL(10, 2), STRING NOT NULL, ARRAY<INT>, MAP<STRING, INT>, ROW<a INT, b STRING>",
        action="Correct the type.",
    )
