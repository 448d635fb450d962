"""The revisions of a warehouse, by their notes (0046). Raises DamagedError for a note that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from widetable.commit.notes.revision_notes import notes_of
from widetable.topology.warehouse import Warehouse, tables_under_barriers


@dataclass(frozen=True)
class NotedRevision:
    """A revision, as the warehouse has recorded it.

    Attributes
    ----------
    number : int
        The number of the revision, from 1.
    table : str
        The table that was revised.
    to : int or None
        The barrier that it went back to, in epoch milliseconds. None: the beginning.
    tables : tuple of str
        All tables that went back, each after those that it is derived from.
    is_active : bool
        Whether the revision has ended, so that readers follow it.
    """

    __module__ = "widetable"

    number: int
    table: str
    to: int | None
    tables: tuple[str, ...]
    is_active: bool


def noted_revisions(warehouse: Warehouse) -> list[NotedRevision]:
    """Return the revisions, ascending by number. Any table under barriers leads to the warehouse's notes."""
    for _, table in tables_under_barriers(warehouse):
        notes = notes_of(table._file_io, table._paths)
        return [
            NotedRevision(
                note.number, note.table, note.barrier or None, tuple(note.tables), is_active
            )
            for note, is_active in (notes.all() if notes is not None else ())
        ]
    return []
