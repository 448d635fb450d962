"""Which tables a job takes: patterns such as `public.*`, `sales.order_?` or `orders`. Pure, raises nothing.

A pattern has `*` for any letters and `?` for one, and letters count as they are written. What stands before its first
dot is the schema's part; without a dot the schema is `public`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

_DEFAULT_SCHEMA: Final = "public"


def is_taken(schema: str, name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Return whether a pattern of `include` names the table and none of `exclude` does."""
    return any(_names(each, schema, name) for each in include) and not any(
        _names(each, schema, name) for each in exclude
    )


def is_named(schema: str, name: str, include: Sequence[str]) -> bool:
    """Return whether a pattern is the very name of the table."""
    return any(_parts(each) == (schema, name) for each in include)


def _names(pattern: str, schema: str, name: str) -> bool:
    schemas, names = _parts(pattern)
    return fnmatchcase(schema, _plain(schemas)) and fnmatchcase(name, _plain(names))


def _parts(pattern: str) -> tuple[str, str]:
    schema, dot, name = pattern.partition(".")
    return (schema, name) if dot else (_DEFAULT_SCHEMA, schema)


def _plain(pattern: str) -> str:
    """A bracket stands for itself."""
    return pattern.replace("[", "[[]")
