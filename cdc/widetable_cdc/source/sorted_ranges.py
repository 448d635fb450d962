"""Ranges of a table whose key is no number of `chunk_range`, by an order that the server and Arrow have in common.

    key                              order                                        column of the target
    text, varchar, an enum, numeric  of the bytes of its text: that of COLLATE "C"  texts
    numeric(p, s)                    of numbers                                   DECIMAL of that scale
    bytea                            of bytes                                     bytes

    keys        "", "a" .. "kz", "l" .. "ß日"        a range has a given number of rows, the last one what is left
    ranges      [, "l")     ["l", )

A number that the target rounds may lie on the other side of a bound there, so a DECIMAL of another scale has no ranges.
Copies do not use them: a change of the log would have to be compared in this order as well. A comparison of two tables
does, so that it has one range at a time in memory. The server sorts the keys once. Raises what `server_errors` raises.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import open_arrow_session
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.sql_name import qualified, quoted
from widetable_cdc.values.source_type import SourceType

_TEXTS: Final = ("text", "varchar", "numeric")
_ENCODING: Final = "SELECT current_setting('server_encoding') AS encoding"
# Every n-th key, once each.
_BOUNDS: Final = """
SELECT {bound} AS bound FROM (
  SELECT DISTINCT k FROM (SELECT {key} AS k, row_number() OVER (ORDER BY {key}) AS n FROM {table}) AS numbered
  WHERE n % {rows} = 0) AS kept
ORDER BY k
"""


@dataclass(frozen=True)
class KeyOrder:
    """An order of keys. key: the expression of SQL that is compared, of the column {0}. bound: a text of it, k.

    literal: the text of a bound as SQL. value: the text of a bound as a value of Arrow.
    """

    key: str
    bound: str
    literal: Callable[[str], str]
    value: Callable[[str], Any]


# Texts of SQL by their bytes, whatever the settings of the session say of quotes and backslashes.
BY_TEXT: Final = KeyOrder(
    '{0}::text COLLATE "C"',
    "k",
    lambda text: f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')",
    str,
)
BY_BYTES: Final = KeyOrder(
    "{0}", "encode(k, 'hex')", lambda text: f"decode('{text}', 'hex')", bytes.fromhex
)
BY_NUMBER: Final = KeyOrder("{0}", "k::text", lambda text: f"'{text}'::numeric", Decimal)


@dataclass(frozen=True)
class SortedRange(ChunkRange):
    """Keys from `first` on and below `behind`, None for an open end; both are texts of bounds."""

    order: KeyOrder = BY_TEXT
    first: str | None = None
    behind: str | None = None

    @property
    def predicate(self) -> str:
        """The condition in SQL."""
        key = self.order.key.format(quoted(self.column))
        parts = [
            f"{key} {sign} {self.order.literal(bound)}"
            for sign, bound in ((">=", self.first), ("<", self.behind))
            if bound is not None
        ]
        return " AND ".join(parts) or "true"

    def condition(self, column: pa.Field) -> pc.Expression:
        """Return that condition of the column of the target that has the key."""
        key = pc.field(column.name)
        condition = key.is_valid()
        if self.first is not None:
            condition &= key >= pa.scalar(self.order.value(self.first), column.type)
        if self.behind is not None:
            condition &= key < pa.scalar(self.order.value(self.behind), column.type)
        return condition


def sorted_ranges(
    dsn: str, name: str, table: SourceTable, rows: int, kept: pa.DataType
) -> tuple[SortedRange, ...]:
    """Return ranges of `rows` rows that together hold all keys; none if there is no common order.

    kept: the type in which the target has the first column of the key.
    """
    types = {column.name: column.type for column in table.columns}
    column = table.key[0] if table.key else ""
    order = order_of(types[column], kept) if column in types else None
    if order is None:
        return ()
    connection = open_arrow_session(dsn, name)
    try:
        with server_errors(f"the table {table.schema}.{table.name}"), connection.cursor() as cursor:
            cursor.execute(_ENCODING)
            if order is BY_TEXT and cursor.table()["encoding"][0].as_py() != "UTF8":
                return ()
            source = qualified(table.schema, table.name)
            key = order.key.format(quoted(column))
            cursor.execute(
                _BOUNDS.format(bound=order.bound, key=key, table=source, rows=max(1, rows))
            )
            bounds = cursor.table()["bound"].to_pylist()
    finally:
        connection.close()
    # NaN is the greatest number there, and no DECIMAL.
    bounds = [bound for bound in bounds if order is not BY_NUMBER or bound != "NaN"]
    ends = [None, *bounds, None]
    return tuple(
        SortedRange(column, order=order, first=first, behind=behind)
        for first, behind in itertools.pairwise(ends)
    )


def order_of(source: SourceType, kept: pa.DataType) -> KeyOrder | None:
    """Return the order that a type of the source and that of the target's column have in common; None without."""
    is_text = pa.types.is_string(kept) or pa.types.is_large_string(kept)
    if is_text and (source.name in _TEXTS or source.kind == "e"):
        return BY_TEXT
    if source.name == "bytea" and (pa.types.is_binary(kept) or pa.types.is_large_binary(kept)):
        return BY_BYTES
    if source.name == "numeric" and pa.types.is_decimal(kept) and source.typmod >= 4:
        return BY_NUMBER if (source.typmod - 4) & 0x7FF == kept.scale else None
    return None
