"""Appends at the pace of what is compacted behind them, in a table under barriers.

A writer at full speed would be ever further ahead of it, or stand still where a barrier ends. Instead an append waits,
while a compaction is under way, until that has done as many rows as were appended before it: what is left to be done
stays as large as it was when the first barrier was handed over, and the wait is spread over all appends.

    appended       rows since there is something to compact
    handed over    rows of level 0 that compactions are to take, those of a file once
    done           of these, by the share of its work that a compaction has done
    left           handed over, and its compaction is not done
    an append waits while       appended before it > done + an eighth of what is left

The eighth is for the time in which no row is done: a compaction plans and opens files first, and commits in the end. Of
what is left, not of all: a writer that is never caught up with would get further ahead each time.

    handed over 800 rows: an eighth is 100      appends of 100 rows each, nothing done
    append 1    0 before it    goes on          append 3    200 before it: waits, until 100 more
    append 2    100            goes on                      are done, or the compaction ends

When nothing is left all counts begin anew, and who waits goes on, whatever it was waiting for.

In: rows. Out: nothing but the wait, which ends when nothing is left to compact, also when that failed. A long one is
logged. Raises nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from widetable.messages.warning_code import WarningCode, warn

_log = logging.getLogger("widetable")

_SLACK_PARTS: Final = 8
_LONG_SECONDS: Final = 30.0


class Pace:
    """Of one table, whose root is for messages. Shared by threads.

    _left: rows by file that compactions are to take; _pending: how many compactions; _round: grows
    when all are done, so that who waits sees it even if the next one has begun by then.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._changed = threading.Condition()
        self._round = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._round += 1
        self._left: dict[str, int] = {}
        self._pending = self._finished = self._appended = 0
        self._done = 0.0

    def hand_over(self, rows_of_files: Mapping[str, int]) -> frozenset[str]:
        """A compaction more, of these files of level 0. Those of them that no other one takes, for `finish`.

        {"f": 800}                {"f"}
        {"f": 800, "g": 100}      {"g"}: f counts once, for the compaction that has it first
        """
        with self._changed:
            taken = rows_of_files.keys() - self._left.keys()
            self._left.update(rows_of_files)
            self._pending += 1
            return frozenset(taken)

    def rows_done(self, rows: float) -> None:
        """A compaction has done so many rows of level 0 more."""
        with self._changed:
            self._advance(self._done + rows)

    def finish(self, taken: Iterable[str]) -> None:
        """A compaction is done, or has failed. taken: what `hand_over` gave for it."""
        with self._changed:
            self._finished += sum(self._left.pop(name) for name in taken)
            self._pending -= 1
            if self._pending == 0:
                self._begin_anew()
            # What was told by `rows_done` is a share of its work; now it is as many rows as were
            # handed over.
            self._advance(max(self._done, self._finished))

    def follow(self, rows: int) -> None:
        """Behind an append of so many rows: waits as the module text says."""
        with self._changed:
            if self._pending == 0:
                return
            before, this_round = self._appended, self._round
            self._appended += rows
            while not self._changed.wait_for(
                lambda: self._round != this_round or not self._is_ahead(before), _LONG_SECONDS
            ):
                warn(
                    _log,
                    WarningCode.APPEND_WAITS,
                    "an append to %s waits for the compaction behind it, %.0f s more: of %d rows not all are done",
                    self._root,
                    _LONG_SECONDS,
                    sum(self._left.values()),
                )

    def _advance(self, done: float) -> None:
        self._done = done
        self._changed.notify_all()

    def _is_ahead(self, appended: int) -> bool:
        return appended > self._done + sum(self._left.values()) // _SLACK_PARTS
