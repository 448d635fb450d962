"""Parses the text that names a column, or a field within one.

    path  := name { "." name }        v.f, v.element.f (of an ARRAY), v.value.f (of a MAP)
    name  := text without dots, or any text in backticks, two of which stand for one of its own

    text          names                text          names
    v.f           v, f                 a``b          a``b      (no backtick in front)
    `a.b`.c       a.b, c               `a``b`        a`b
    v .f          "v ", f              a..b, `a`b    InvalidError

Spark's SQL and Paimon's `SchemaChange` do the same; the field names of the latter are the names of a path. A text that
is the whole name of a column is that column. Raises InvalidError for a text that is no path or does not lead to a
field, NotFoundError for a missing name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from widetable.errors import InvalidError, NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.schema.table_schema import TableSchema
from widetable.schema.type_text import text_of
from widetable.schema.types import DataType

Path: TypeAlias = tuple[str, ...]

ELEMENT: Final = "element"
VALUE: Final = "value"
_CORRECT: Final = "Correct the name; one that has a dot itself stands in backticks."
_NAME: Final = re.compile(r"`((?:[^`]|``)*)`(?=\.|$)|([^.`][^.]*|)(?=\.|$)", re.DOTALL)


def parsed(text: str) -> Path:
    """Return the names of a path."""
    names, at = [], 0
    while True:
        match = _NAME.match(text, at)
        if match is None:
            raise _no_path(text, "a backtick that is not closed")
        names.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        at = match.end() + 1
        if at > len(text):
            break
    if len(names) > 1 and not all(names):
        raise _no_path(text, "an empty name")
    return tuple(names)


def quoted(name: str) -> str:
    """Return the text that stands for this single name."""
    return "`" + name.replace("`", "``") + "`" if "." in name or name.startswith("`") else name


def printed(path: Path) -> str:
    """Return the text of this path."""
    return ".".join(quoted(name) for name in path)


def path_of(text: str, schema: TableSchema) -> Path:
    """Return the path of the text. Whether it leads to a field is not checked."""
    return (text,) if text in schema.by_name else parsed(text)


def type_at(path: Path, schema: TableSchema) -> DataType:
    """Return the type at a path: of a column, a field of a ROW, an element of an ARRAY or a value of a MAP."""
    if path[0] not in schema.by_name:
        raise _not_there(path[:1], schema.names)
    kind = schema.field(path[0]).type
    for depth in range(1, len(path)):
        kind = _within(kind, path[: depth + 1])
    return kind


def is_field(path: Path, schema: TableSchema) -> bool:
    """Whether the path leads to a column or a field of a ROW, which has a name of its own."""
    return len(path) == 1 or type_at(path[:-1], schema).root == "ROW"


def _within(kind: DataType, path: Path) -> DataType:
    """Return the type of the path's last name in `kind`, the type of the path without it."""
    name = path[-1]
    if kind.root == "ROW":
        for field in kind.fields:
            if field.name == name:
                return field.type
        raise _not_there(path, [field.name for field in kind.fields])
    if kind.root == "ARRAY" and name == ELEMENT and kind.element is not None:
        return kind.element
    if kind.root == "MAP" and name == VALUE and kind.value is not None:
        return kind.value
    outer, inner = path[:-1], {"ARRAY": ELEMENT, "MAP": VALUE}.get(kind.root)
    raise InvalidError(
        f"column {printed(path)!r}",
        found=f"{printed(outer)!r} of the type {text_of(kind)}",
        expected=f"a path through {printed((*outer, inner))!r}" if inner else "a ROW, ARRAY or MAP",
        action=_CORRECT,
    )


def _not_there(path: Path, names: Sequence[str]) -> NotFoundError:
    return NotFoundError(
        f"column {printed(path)!r}",
        found="no such field" if len(path) > 1 else "no such column",
        expected=f"one of {', '.join(names)}",
        action=_CORRECT,
        code=ErrorCode.COLUMN_NOT_FOUND,
    )


def _no_path(text: str, actual: str) -> InvalidError:
    return InvalidError(
        f"column {text!r}",
        found=actual,
        expected="a name, or names joined by dots; a name that has a dot itself in backticks",
        action=_CORRECT,
    )
