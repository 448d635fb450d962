"""Revisions of a warehouse: tables that go back to a barrier together (docs/decisions/0046).

On disk (other clients ignore these files), two files for each revision, in the directory of the database `__meta`:

    service/widetable-revision-<number>          = JSON object {"table": the requested table, "barrier": to which the
                                                   tables go back, 0: they are cleared, "tables": [["<db>.<table>", the
                                                   barrier of this table, 0 if it had no rows then], ..]}
    service/widetable-revision-<number>-active   = JSON object {"tables": ["<db>.<table>", ..]}: all that went back

Both are published exclusively and never changed. Numbers grow. A revision is noted only when the one before is active,
so at most the last one is not active. Snapshots record which revision took their table back last (`barrier_state`). It
counts when it is active, so the second file changes all tables at one moment. A revision without a note counts, too:
lost notes cannot be written again. Source: rule R20 of docs/consistency.md. Raises DamagedError for a note that cannot
be read, StorageError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from widetable.commit.notes.json_note import JsonNote, is_pairs, is_text, is_texts, is_whole
from widetable.errors import ConflictError
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, revision_dir, revision_note, revision_of, table_name

_ACTION: Final = (
    "Restore the file: until then it is not known which states of the tables belong together."
)
_NOTE: Final = JsonNote(
    "note of a revision",
    {"table": is_text, "barrier": is_whole, "tables": is_pairs(is_whole)},
    _ACTION,
)
_ACTIVE: Final = JsonNote("end of a revision", {"tables": is_texts}, _ACTION)


@dataclass(frozen=True)
class RevisionNote:
    """A revision. table: the requested one. barrier: 0 if the tables are cleared. tables: each with the barrier that it
    goes back to, source tables before the tables derived from them.
    """

    number: int
    table: str
    barrier: int
    tables: Mapping[str, int]


class RevisionNotes:
    """The revisions of one warehouse. Stateless: every call reads the storage."""

    def __init__(self, file_io: FileIO, warehouse: str) -> None:
        self._file_io = file_io
        self._warehouse = warehouse

    def active(self) -> int:
        """Return the last active revision, 0 without any, even if the notes of earlier ones were lost."""
        numbers = self._numbers()
        last = max((number for number, _ in numbers), default=0)
        return last if (last, True) in numbers or not last else last - 1

    def unfinished(self) -> RevisionNote | None:
        """Return the revision that is noted and not active, if there is one."""
        return self.last()[1]

    def last(self) -> tuple[int, RevisionNote | None]:
        """Return the last number, 0 without any, and its note if it is not active, as of one moment."""
        numbers = self._numbers()
        last = max((number for number, _ in numbers), default=0)
        return last, None if (last, True) in numbers or not last else self._note(last)

    def visible(self, newest: int, used: int | None) -> int:
        """Return the last revision that counts in a table whose newest snapshot has the revision `newest`.

        used: the revision that the caller uses in all tables; None: the one that is active now. Example: revision 3 is
        noted, not active, and has taken this table back. The result is 2, as in tables that it has not taken back yet.
        Once it is active the result is 3, but still 2 for a caller that uses 2.
        """
        if used is None and self._exists(newest, is_active=True):
            return newest
        least = newest - 1 if used is None else used
        while newest > least and self._exists(newest, is_active=False):
            newest -= 1
        return newest

    def tables(self) -> list[tuple[str, ...]]:
        """Return the tables that went back, for each active revision in order."""
        ends = sorted(number for number, is_end in self._numbers() if is_end)
        paths = [self._path(number, is_active=True) for number in ends]
        return [tuple(_ACTIVE.from_json(self._file_io.read(p), p)["tables"]) for p in paths]

    def all(self) -> list[tuple[RevisionNote, bool]]:
        """Return all revisions whose notes exist, ascending, each with whether it is active."""
        known_numbers = self._numbers()
        numbers = sorted(number for number, is_end in known_numbers if not is_end)
        return [(self._note(number), (number, True) in known_numbers) for number in numbers]

    def publish(self, note: RevisionNote) -> bool:
        """Publish the note of a revision; return False if another revision has the number."""
        path = self._path(note.number)
        values = {"table": note.table, "barrier": note.barrier, "tables": list(note.tables.items())}
        is_new = self._file_io.publish(path, _NOTE.to_json(path, values))
        return is_new or self._note(note.number) == note

    def activate(self, number: int, tables: Iterable[str]) -> None:
        """Mark a revision as active: it counts from now on."""
        path = self._path(number, is_active=True)
        self._file_io.publish(path, _ACTIVE.to_json(path, {"tables": list(tables)}))

    def _numbers(self) -> set[tuple[int, bool]]:
        entries = self._file_io.list(revision_dir(self._warehouse))
        return {parsed for entry in entries if (parsed := revision_of(entry.name)) is not None}

    def _note(self, number: int) -> RevisionNote:
        path = self._path(number)
        values = _NOTE.from_json(self._file_io.read(path), path)
        return RevisionNote(number, values["table"], values["barrier"], dict(values["tables"]))

    def _exists(self, number: int, *, is_active: bool) -> bool:
        return self._file_io.exists(self._path(number, is_active=is_active))

    def _path(self, number: int, *, is_active: bool = False) -> str:
        return revision_note(self._warehouse, number, is_active=is_active)


def notes_of(file_io: FileIO, paths: TablePaths) -> RevisionNotes | None:
    """Return the revisions of the warehouse of a table; None for a table outside a warehouse."""
    place = table_name(paths.shared_root)
    return None if place is None else RevisionNotes(file_io, place[0])


def unfinished(note: RevisionNote) -> ConflictError:
    """Return the error for an operation that must wait for a revision to end."""
    to = note.barrier or None
    return ConflictError(
        f"revision {note.number}",
        found=f"an unfinished revision of {note.table}",
        expected="a revision that has ended",
        action=f"Finish it: catalog.revise({note.table!r}, to={to}), then try again.",
    )
