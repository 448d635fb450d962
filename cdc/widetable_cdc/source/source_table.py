"""A table of the source as its catalog describes it now."""

from __future__ import annotations

from dataclasses import dataclass

from widetable_cdc.values.source_type import SourceType


@dataclass(frozen=True)
class SourceColumn:
    """A column. attnum: its number, which a rename keeps. missing: the text of `attmissingval`, the value of rows that
    were there before the column; None without. has_default: whether the column has a default. is_generated: whether
    the value is computed by the server.
    """

    name: str
    attnum: int
    type: SourceType
    is_nullable: bool
    has_default: bool = False
    missing: str | None = None
    is_generated: bool = False


@dataclass(frozen=True)
class SourceTable:
    """A table. oid, relfilenode: of `pg_class`. identity: `relreplident`, d, n, f or i. key: the columns of the
    primary key (of the identity's index, with identity i), in the order of the index. columns: in the order of attnum,
    without dropped ones.
    """

    oid: int
    schema: str
    name: str
    relfilenode: int
    identity: str
    key: tuple[str, ...]
    columns: tuple[SourceColumn, ...]
