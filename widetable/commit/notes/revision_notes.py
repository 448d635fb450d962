"""Revisions of a warehouse: tables that go back to a barrier together (docs/decisions/0046).

On disk (other clients never look there), two files for each, in the directory of the database `__meta`:

    service/widetable-revision-<number>          = JSON object {"table": what was asked for, "barrier": to which
                                                   they go back, 0: they are cleared, "tables": [["<db>.<table>", the
                                                   same of this table, 0 where it had nothing then], ..]}
    service/widetable-revision-<number>-active   = JSON object {"tables": ["<db>.<table>", ..]}: all that went back

Both are published exclusively and never changed. Numbers grow; one is noted when the one before is active, so at most
the last is not. Snapshots say which revision took their table back last (`barrier_state`); it counts when it is active,
so the second file changes all tables at one moment. One without a note counts, too: notes that are lost cannot be made
again. Source: rule R20 of docs/consistency.md. Raises DamagedError for a note that cannot be read, StorageError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from widetable.commit.notes.json_note import JsonNote, is_pairs, is_text, is_texts, is_whole
from widetable.errors import ConflictError
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, revision_dir, revision_note, revision_of, table_name

_ACTION: Final = "Restore the file: until then nobody knows how the tables belong together."
_NOTE: Final = JsonNote(
    "note of a revision",
    {"table": is_text, "barrier": is_whole, "tables": is_pairs(is_whole)},
    _ACTION,
)
_ACTIVE: Final = JsonNote("end of a revision", {"tables": is_texts}, _ACTION)


@dataclass(frozen=True)
class RevisionNote:
    """table: that was asked for. barrier: 0 where the tables are cleared. tables: each with the barrier that it goes
    back to, those that are made first in front.
    """

    number: int
    table: str
    barrier: int
    tables: Mapping[str, int]


class RevisionNotes:
    """Of one warehouse. Without state: every call looks at the storage."""

    def __init__(self, file_io: FileIO, warehouse: str) -> None:
        self._file_io = file_io
        self._warehouse = warehouse

    def active(self) -> int:
        """The last one that is active, 0 without any; also where the notes of those before were lost."""
        found = self._numbers()
        last = max((number for number, _ in found), default=0)
        return last if (last, True) in found or not last else last - 1

    def unfinished(self) -> RevisionNote | None:
        """The one that is noted and not active."""
        return self.last()[1]

    def last(self) -> tuple[int, RevisionNote | None]:
        """The last number, 0 without any, and its note where it is not active, of one moment."""
        found = self._numbers()
        last = max((number for number, _ in found), default=0)
        return last, None if (last, True) in found or not last else self._note(last)

    def visible(self, newest: int, known: int | None) -> int:
        """The last one that counts in a table, of which the newest snapshot says `newest`, for who goes by the
        revision `known` in all tables; None: by the one that is active now.

        Revision 3 is noted and not active, and has taken this table back: 2, as in the tables
        that it has not come to yet. Once it is active: 3; but 2 for who goes on by `known` 2.
        """
        if known is None and self._is_there(newest, is_active=True):
            return newest
        least = newest - 1 if known is None else known
        while newest > least and self._is_there(newest, is_active=False):
            newest -= 1
        return newest

    def tables(self) -> list[tuple[str, ...]]:
        """What went back, of each that is active."""
        ends = sorted(number for number, is_end in self._numbers() if is_end)
        paths = [self._path(number, is_active=True) for number in ends]
        return [tuple(_ACTIVE.from_json(self._file_io.read(p), p)["tables"]) for p in paths]

    def all(self) -> list[tuple[RevisionNote, bool]]:
        """Each with whether it is active, ascending; without those whose notes were lost."""
        found = self._numbers()
        numbers = sorted(number for number, is_end in found if not is_end)
        return [(self._note(number), (number, True) in found) for number in numbers]

    def publish(self, note: RevisionNote) -> bool:
        """False where another one has the number."""
        path = self._path(note.number)
        values = {"table": note.table, "barrier": note.barrier, "tables": list(note.tables.items())}
        is_new = self._file_io.publish(path, _NOTE.to_json(path, values))
        return is_new or self._note(note.number) == note

    def activate(self, number: int, tables: Iterable[str]) -> None:
        """From now on it counts."""
        path = self._path(number, is_active=True)
        self._file_io.publish(path, _ACTIVE.to_json(path, {"tables": list(tables)}))

    def _numbers(self) -> set[tuple[int, bool]]:
        entries = self._file_io.list(revision_dir(self._warehouse))
        return {found for entry in entries if (found := revision_of(entry.name)) is not None}

    def _note(self, number: int) -> RevisionNote:
        path = self._path(number)
        values = _NOTE.from_json(self._file_io.read(path), path)
        return RevisionNote(number, values["table"], values["barrier"], dict(values["tables"]))

    def _is_there(self, number: int, *, is_active: bool) -> bool:
        return self._file_io.exists(self._path(number, is_active=is_active))

    def _path(self, number: int, *, is_active: bool = False) -> str:
        return revision_note(self._warehouse, number, is_active=is_active)


def notes_of(file_io: FileIO, paths: TablePaths) -> RevisionNotes | None:
    """Of the warehouse of a table; None for one that lies in none."""
    place = table_name(paths.shared_root)
    return None if place is None else RevisionNotes(file_io, place[0])


def unfinished(note: RevisionNote) -> ConflictError:
    """Of what has to wait for a revision to end."""
    to = note.barrier or None
    return ConflictError(
        f"revision {note.number}",
        found=f"it of {note.table}, which has not ended",
        expected="a revision that has ended",
        action=f"Finish it: catalog.revise({note.table!r}, to={to}), then try again.",
    )
