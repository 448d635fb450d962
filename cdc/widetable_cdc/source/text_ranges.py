"""Ranges of a table whose key begins with a text, by the order of the bytes of UTF-8: that of COLLATE "C" and of Arrow.

    keys        "", "a" .. "kz", "l" .. "ß日"        a range has a given number of rows, the last one what is left
    ranges      [, "l")     ["l", )

Copies do not use them: a change of the log would have to be compared in this order as well. A comparison of two tables
does, so that it has one range at a time in memory. The server sorts the keys once. Raises what `server_errors` raises.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import open_arrow_session
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.sql_name import qualified, quoted

_TEXTS: Final = ("text", "varchar")
_ENCODING: Final = "SELECT current_setting('server_encoding') AS encoding"
# Every n-th key, once each.
_BOUNDS: Final = """
SELECT DISTINCT k FROM (SELECT {key}::text COLLATE "C" AS k, row_number() OVER (ORDER BY {key} COLLATE "C") AS n
                        FROM {table}) AS numbered
WHERE n % {rows} = 0 ORDER BY k
"""


@dataclass(frozen=True)
class TextRange(ChunkRange):
    """Keys from `first` on and below `behind`, None for an open end."""

    first: str | None = None
    behind: str | None = None

    @property
    def predicate(self) -> str:
        """The condition in SQL."""
        key = f'{quoted(self.column)} COLLATE "C"'
        parts = [
            f"{key} {sign} {_literal(bound)}"
            for sign, bound in ((">=", self.first), ("<", self.behind))
            if bound is not None
        ]
        return " AND ".join(parts) or "true"

    def condition(self, name: str) -> pc.Expression:
        """Return that condition of the column of the target that has the key. name: of the column."""
        condition = pc.field(name).is_valid()
        if self.first is not None:
            condition &= pc.field(name) >= self.first
        if self.behind is not None:
            condition &= pc.field(name) < self.behind
        return condition


def text_ranges(dsn: str, name: str, table: SourceTable, rows: int) -> tuple[TextRange, ...]:
    """Return ranges of `rows` rows that together hold all keys; none if the key does not begin with a text."""
    types = {column.name: column.type.name for column in table.columns}
    column = table.key[0] if table.key else ""
    if types.get(column) not in _TEXTS:
        return ()
    connection = open_arrow_session(dsn, name)
    try:
        with server_errors(f"the table {table.schema}.{table.name}"), connection.cursor() as cursor:
            cursor.execute(_ENCODING)
            if cursor.table()["encoding"][0].as_py() != "UTF8":
                return ()
            source = qualified(table.schema, table.name)
            cursor.execute(_BOUNDS.format(key=quoted(column), table=source, rows=max(1, rows)))
            bounds = cursor.table()["k"].to_pylist()
    finally:
        connection.close()
    ends = [None, *bounds, None]
    return tuple(
        TextRange(column, first=first, behind=behind) for first, behind in itertools.pairwise(ends)
    )


def _literal(text: str) -> str:
    """Return a text for SQL by its bytes, whatever the settings of the session say of quotes and backslashes."""
    return f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"
