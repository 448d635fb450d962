"""Parses a column's type from SQL text: INT, VARCHAR(10) NOT NULL, ARRAY<STRING>, MAP<INT, ROW<a INT, b STRING>>.

    type   := plain ["NOT NULL"] | outer "<" parts ">" ["NOT NULL"]
    parts  := type | key "," value | name type { "," name type }

Words have any case; names of fields keep theirs. Plain types: `types.parse_type`. Raises InvalidError for text that is
not a type, UnsupportedError for types that tables cannot have, and for types that are nested too deep.

    MAP<INT, STRING> NOT NULL               MAP<INT NOT NULL, STRING> NOT NULL    keys are never null
    row<a: int not null, `b c` varchar>     ROW<`a` INT NOT NULL, `b c` VARCHAR(1)>
    STRUCT<a INT>                           ROW<`a` INT>                          Spark's name

The right column is the text that `text_of` returns. A schema file has another form for nested types, a
JSON object (`types.type_to_json`); plain types have the same text in both.
"""

from __future__ import annotations

import re
from typing import Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.schema.types import DataField, DataType, parse_type
from widetable.schema.types_from_arrow import check_depth, have_own_names

# Greedy: the last ">" closes the type, so the inner text may have brackets, and NOT NULL, itself.
_NESTED: Final = re.compile(
    r"(ARRAY|MULTISET|MAP|ROW|STRUCT)\s*<(.*)>\s*(NOT\s+NULL)?", re.DOTALL | re.IGNORECASE
)
# `a INT`, `a: INT` (Hive's form), or in backticks any name without backticks.
_FIELD: Final = re.compile(r"\s*(?:`([^`]+)`|(\w+))[\s:]+(.*)", re.DOTALL)


def type_from_text(text: str, *, depth: int = 0) -> DataType:
    """Parse a type. The fields of each ROW are numbered from 0. depth: the number of outer types (`check_depth`).

    These numbers are not field ids. The creator of a schema assigns those (`types.assign_field_ids`).
    """
    check_depth(depth, "type text")
    # A text without nesting is a plain type, or invalid: `parse_type` decides. Errors show the original text.
    match = _NESTED.fullmatch(text.strip())
    if match is None:
        try:
            return parse_type(re.sub(r"\s+", " ", text.strip()).upper())
        except (InvalidError, UnsupportedError) as cause:  # they show another spelling
            raise type(cause)(
                f"type {text.strip()!r}",
                found=cause.found,
                expected=cause.expected,
                action=cause.action,
            ) from cause
    root, parts, nullable = match[1].upper(), _parts(match[2]), match[3] is None
    if root in ("ROW", "STRUCT"):
        fields = tuple(_field(at, part, text, depth + 1) for at, part in enumerate(parts))
        if not have_own_names([field.name for field in fields]):
            raise _no_type(text)
        return DataType("ROW", nullable, fields=fields)
    if len(parts) != (2 if root == "MAP" else 1):
        raise _no_type(text)
    within = [type_from_text(part, depth=depth + 1) for part in parts]
    if root == "MAP":
        return DataType(root, nullable, key=within[0].not_null(), value=within[1])
    return DataType(root, nullable, element=within[0])


def text_of(kind: DataType) -> str:
    """Return the text of a type, without ids and comments of fields; `type_from_text` parses it."""
    null = "" if kind.nullable else " NOT NULL"
    if kind.element is not None:
        return f"{kind.root}<{text_of(kind.element)}>{null}"
    if kind.key is not None and kind.value is not None:
        return f"{kind.root}<{text_of(kind.key)}, {text_of(kind.value)}>{null}"
    if kind.root == "ROW":
        fields = (f"`{field.name}` {text_of(field.type)}" for field in kind.fields)
        return f"{kind.root}<{', '.join(fields)}>{null}"
    return str(kind)


def _field(at: int, part: str, text: str, depth: int) -> DataField:
    """Parse a field of a ROW. at: its place; text: the whole type, for messages; depth: that of the field's type."""
    match = _FIELD.fullmatch(part)
    if match is None:
        raise _no_type(text)
    return DataField(at, match[1] or match[2], type_from_text(match[3], depth=depth))


def _parts(text: str) -> list[str]:
    """Split a text at the commas outside of brackets.

    "a DECIMAL(10, 2), b MAP<INT, STRING>" gives "a DECIMAL(10, 2)" and " b MAP<INT, STRING>";
    an empty text is one part, which is neither a field nor a type.
    """
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
        found="text that is not a type",
        expected="a type such as INT, DECIMAL(10, 2), STRING NOT NULL, ARRAY<INT>, MAP<STRING, INT>, "
        "ROW<a INT, b STRING> with distinct names",
        action="Correct the type.",
    )
