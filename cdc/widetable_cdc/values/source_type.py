"""A type of PostgreSQL as its catalog describes it, with domains resolved to their base type. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceType:
    """A type. name: its `typname`, such as int4, numeric, bpchar, _int4. kind: `typtype`: b base, e enum, c composite,
    r range, m multirange. typmod: -1 for none. element: the type of the elements of an array, else None.
    """

    oid: int
    name: str
    kind: str = "b"
    typmod: int = -1
    element: SourceType | None = None
