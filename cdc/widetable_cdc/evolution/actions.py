"""What a change of a relation means for its target: a tuple of these, in the order in which they are carried out.

    AddColumn, DropColumn, RenameColumn, WidenType    the next schema of the target, all in one step
    Verify                                            values may have changed without an event: compare, copy ranges
    CopyAgain                                         the whole table is read again; readers see old values until then
    Park                                              the table waits for a person; its changes are kept
    ()                                                nothing

Columns are named as in the target. Raises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from widetable_cdc.values.source_type import SourceType


@dataclass(frozen=True)
class AddColumn:
    """A column that is new at the end. fill: the text of its value in rows that were there before; None for null."""

    attnum: int
    name: str
    type: SourceType
    fill: str | None = None


@dataclass(frozen=True)
class DropColumn:
    """A column that the source has no more."""

    attnum: int
    name: str


@dataclass(frozen=True)
class RenameColumn:
    """A column that has another name. Two columns may swap theirs."""

    attnum: int
    name: str
    new_name: str


@dataclass(frozen=True)
class WidenType:
    """A column whose new type holds each value of the old one."""

    attnum: int
    name: str
    type: SourceType


@dataclass(frozen=True)
class Verify:
    """The values of rows may have changed without an event."""

    reason: str


@dataclass(frozen=True)
class CopyAgain:
    """The log cannot say what the rows are now."""

    reason: str


@dataclass(frozen=True)
class Park:
    """The target cannot follow."""

    reason: str


SchemaAction: TypeAlias = AddColumn | DropColumn | RenameColumn | WidenType
Action: TypeAlias = SchemaAction | Verify | CopyAgain | Park
