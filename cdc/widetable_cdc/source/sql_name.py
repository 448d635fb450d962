"""Names of PostgreSQL in SQL: `a"b` becomes `"a""b"`. Pure, raises nothing."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return the name as an identifier of SQL, whatever letters it has."""
    return '"' + name.replace('"', '""') + '"'


def qualified(schema: str, name: str) -> str:
    """Return the name of a table with its schema."""
    return f"{quoted(schema)}.{quoted(name)}"
