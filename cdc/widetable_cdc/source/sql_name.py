"""Names and texts of PostgreSQL in SQL: `a"b` becomes `"a""b"`, or `E'a"b'`. Pure, raises nothing."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return the name as an identifier of SQL, whatever letters it has."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of SQL, whatever letters it has and whatever the server's settings are."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def qualified(schema: str, name: str) -> str:
    """Return the name of a table with its schema."""
    return f"{quoted(schema)}.{quoted(name)}"
