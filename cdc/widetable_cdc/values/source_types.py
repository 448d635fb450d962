"""Rows of PostgreSQL's catalog of types become a SourceType: domains by their base types, arrays with their elements.

In: the oid and typmod of a column, and rows of `pg_type`. Out: a SourceType. Raises InvalidError for an oid that no row
has. Pure.

A type's row names others by typbasetype (a domain) or typelem (an array), which must be among the rows. A domain's own
typmod counts, because a column of a domain has none. The typmod of an array is that of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from widetable import InvalidError
from widetable_cdc.values.source_type import SourceType

_DOMAIN: Final = "d"
_ARRAY: Final = "A"
# Types of the category of arrays whose texts are not those of arrays: int2vector, oidvector.
_VECTORS: Final = frozenset((22, 30))


class TypeRow(NamedTuple):
    """A row of `pg_type`: the columns that `resolve` needs, by their names there."""

    oid: int
    typname: str
    typtype: str
    typbasetype: int
    typtypmod: int
    typelem: int
    typcategory: str


def resolve(oid: int, typmod: int, rows: Mapping[int, TypeRow]) -> SourceType:
    """Return the type of a column. rows: by their oids. Raises InvalidError."""
    row = _row_of(oid, rows)
    while row.typtype == _DOMAIN:
        # A domain over a domain has its typmod at the base.
        typmod = row.typtypmod if row.typtypmod >= 0 else typmod
        row = _row_of(row.typbasetype, rows)
    element = None
    if row.typcategory == _ARRAY and row.typelem and row.oid not in _VECTORS:
        element = resolve(row.typelem, typmod, rows)
    return SourceType(row.oid, row.typname, row.typtype, typmod, element)


def _row_of(oid: int, rows: Mapping[int, TypeRow]) -> TypeRow:
    row = rows.get(oid)
    if row is None:
        raise InvalidError(
            f"type with the oid {oid}",
            found="no row of pg_type",
            expected="a row for each type, and for the base types and elements of these",
            action="Read the types of the source again: the type was made or dropped meanwhile.",
        )
    return row
