"""The data files of a bucket that are open for lookups, by name.

In: files that may have keys. Out: their FileRows, opened at the first request. With `keeps`, sources that answer in any
order (caches) stay open between calls, also while the file moves to another level; from time to time they are reopened,
which tells the caches of this host that they are in use. A source that reads its file forward is closed when the keys
have passed it. Not for several threads at once. Raises the errors of opening data files.

    a call             rows(f) .. passed(f) for each file that may have keys, then end_call
    not `keeps`        a file is open from its first key to its last: as many at once as runs
    `keeps`            caches stay open for the next call; files that are read forward are closed, as its keys restart
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final, NamedTuple

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import DeletedRows
from widetable.lsm.file_rows import FileRows
from widetable.lsm.rows_opener import RowsOpener

_REOPEN_SECONDS: Final = 60.0


class _OpenFile(NamedTuple):
    """An open file. deleted: its deletion vector when it was opened."""

    rows: FileRows
    at_seconds: float
    deleted: DeletedRows | None


class OpenFiles:
    """The open files of a bucket. opener: of the bucket. keeps: for many calls, whose keys need not ascend."""

    def __init__(self, opener: RowsOpener, *, keeps: bool = False) -> None:
        self._opener = opener
        self._keeps = keeps
        self._opened: dict[str, _OpenFile] = {}

    def __len__(self) -> int:
        return len(self._opened)

    def rows(self, file: DataFileMeta, keys: int) -> FileRows:
        """Return the rows of a file, which is opened if it is not. keys: approximate number of keys to find in it."""
        if self.is_open(file):
            return self._opened[file.file_name].rows
        if file.file_name in self._opened:
            self._close(file.file_name)
        rows = self._opener.open(file, keys)
        self._opened[file.file_name] = _OpenFile(rows, time.monotonic(), file.deleted)
        return rows

    def is_open(self, file: DataFileMeta) -> bool:
        """Return whether the file is open with the same deletion vector; a later snapshot's may have more rows."""
        opened = self._opened.get(file.file_name)
        return opened is not None and opened.deleted == file.deleted

    def passed(self, file: DataFileMeta) -> None:
        """Release a file after the last key of this call in it."""
        opened = self._opened.get(file.file_name)
        if opened is not None and not (self._keeps and opened.rows.answers_in_any_order):
            self._close(file.file_name)

    def end_call(self) -> None:
        """End a call: close files that are read forward, and caches that were opened long ago."""
        too_old = time.monotonic() - _REOPEN_SECONDS
        for name, opened in list(self._opened.items()):
            if opened.at_seconds < too_old or not opened.rows.answers_in_any_order:
                self._close(name)

    def keep_only(self, names: Collection[str]) -> None:
        """Close all files but these."""
        for name in self._opened.keys() - set(names):
            self._close(name)

    def close(self) -> None:
        """Close all files. May be called more than once."""
        self.keep_only(())

    def _close(self, name: str) -> None:
        self._opened.pop(name).rows.close()
