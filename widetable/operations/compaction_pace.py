"""Appends at the pace of what is compacted behind them, in a table under barriers.

A writer at full speed would be ever further ahead of it, or stand still where a barrier ends. Instead an append waits,
while a compaction is under way, until that has read as many rows as were appended before it: what is left to be done
stays as large as it was when the first barrier was handed over, and the wait is spread over all appends.

    appended       rows since there is something to compact
    handed over    rows of level 0 that compactions are to take, those of a file once
    read           of these
    an append waits while       appended before it > read + an eighth of what was handed over

The eighth is for the time in which a compaction reads nothing: it plans and opens files first, and writes and commits
in the end.

In: rows. Out: nothing but the wait, which ends when nothing is left to compact, also when that failed. Raises nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

_SLACK_PARTS: Final = 8


class Pace:
    """Of one table. Shared by threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._round = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._round += 1
        self._files: set[str] = set()
        self._pending = self._handed_over = self._read = self._finished = self._appended = 0

    def hand_over(self, rows_of_files: Mapping[str, int]) -> int:
        """A compaction more, of these files of level 0. How many of their rows no other one takes."""
        with self._changed:
            rows = sum(rows for name, rows in rows_of_files.items() if name not in self._files)
            self._files.update(rows_of_files)
            self._pending += 1
            self._handed_over += rows
            return rows

    def rows_read(self, rows: int) -> None:
        """A compaction has read so many rows of level 0 more."""
        with self._changed:
            self._advance(self._read + rows)

    def finish(self, rows: int) -> None:
        """A compaction is done, or has failed. rows: what `hand_over` gave for it."""
        with self._changed:
            self._finished += rows
            self._pending -= 1
            if self._pending == 0:
                self._begin_anew()
            self._advance(max(self._read, self._finished))

    def follow(self, rows: int) -> None:
        """Behind an append of so many rows: waits as the module text says."""
        with self._changed:
            if self._pending == 0:
                return
            before, this_round = self._appended, self._round
            self._appended += rows
            self._changed.wait_for(lambda: self._round != this_round or not self._is_ahead(before))

    def _advance(self, read: int) -> None:
        self._read = read
        self._changed.notify_all()

    def _is_ahead(self, appended: int) -> bool:
        return appended > self._read + self._handed_over // _SLACK_PARTS
