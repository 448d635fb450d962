"""The data files of a bucket that are open for lookups, by name.

In: files that keys come to. Out: their FileRows, opened when they are first asked for. With `keeps` those that answer
in any order (caches) stay open between calls, also while the file moves to another level; from time to time they are
opened anew, which tells the caches of this host that they are used. What reads its file front to back is closed when
the keys have passed it. Not for several threads at once. Raises what opening data files raises.

    a call             rows(f) .. passed(f) for each file that keys come to, then end_call
    not `keeps`        a file is open from its first key to its last: as many at once as runs
    `keeps`            caches stay for the next call; files that are read front to back go, as its keys begin anew
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final, NamedTuple

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import DeletedRows
from widetable.lsm.file_rows import FileRows
from widetable.lsm.rows_opener import RowsOpener

_ANEW_SECONDS: Final = 60.0


class _OpenFile(NamedTuple):
    """deleted: which rows were deleted when it was opened."""

    rows: FileRows
    at_seconds: float
    deleted: DeletedRows | None


class OpenFiles:
    """opener: of the bucket. keeps: for many calls, whose keys come in any order."""

    def __init__(self, opener: RowsOpener, *, keeps: bool = False) -> None:
        self._opener = opener
        self._keeps = keeps
        self._opened: dict[str, _OpenFile] = {}

    def __len__(self) -> int:
        return len(self._opened)

    def rows(self, file: DataFileMeta, keys: int) -> FileRows:
        """keys: about how many will be looked for, if it is to be opened."""
        if self.is_open(file):
            return self._opened[file.file_name].rows
        if file.file_name in self._opened:
            self._close(file.file_name)
        rows = self._opener.open(file, keys)
        self._opened[file.file_name] = _OpenFile(rows, time.monotonic(), file.deleted)
        return rows

    def is_open(self, file: DataFileMeta) -> bool:
        """With the same rows deleted: one of a later snapshot may have more, and is opened anew."""
        opened = self._opened.get(file.file_name)
        return opened is not None and opened.deleted == file.deleted

    def passed(self, file: DataFileMeta) -> None:
        """All keys of this call have passed the file."""
        opened = self._opened.get(file.file_name)
        if opened is not None and not (self._keeps and opened.rows.answers_in_any_order):
            self._close(file.file_name)

    def end_call(self) -> None:
        """The keys of the next call begin anew."""
        too_old = time.monotonic() - _ANEW_SECONDS
        for name, opened in list(self._opened.items()):
            if opened.at_seconds < too_old or not opened.rows.answers_in_any_order:
                self._close(name)

    def keep_only(self, names: Collection[str]) -> None:
        """Close the others."""
        for name in self._opened.keys() - set(names):
            self._close(name)

    def close(self) -> None:
        """Let go of all files. May be called more than once."""
        self.keep_only(())

    def _close(self, name: str) -> None:
        self._opened.pop(name).rows.close()
