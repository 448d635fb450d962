"""Slows appends down to the pace of the compactions behind them, in a table under barriers.

A writer at full speed would get further and further ahead of the compactions, or stop where a barrier ends. Instead,
while a compaction is under way, an append waits until the compaction has done as many rows as were appended before: the
remaining work stays as large as it was when the first barrier was handed over, and the wait is spread over all appends.

    appended       rows since there is something to compact
    handed over    rows of level 0 that compactions are to take, those of a file once
    done           of these, by the share of its work that a compaction has done
    left           handed over, and its compaction is not done
    an append waits while       appended before it > done + an eighth of what is left

The eighth covers the time in which no row is done: a compaction plans and opens files first, and commits at the end. It
is an eighth of what is left, not of all rows, because else a writer that is always ahead would gain more each time.

    handed over 800 rows: an eighth is 100      appends of 100 rows each, nothing done
    append 1    0 before it    goes on          append 3    200 before it: waits, until 100 more
    append 2    100            goes on                      are done, or the compaction ends

When nothing is left, all counts are reset, and each waiting append goes on, whatever it was waiting for.

In: rows. Out: only the wait, which ends when nothing is left to compact, even if the compaction failed. A long wait is
logged. Raises nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from widetable.messages.warning_code import WarningCode, warn

_log = logging.getLogger("widetable")

_SLACK_PARTS: Final = 8
_LONG_SECONDS: Final = 30.0


class Pace:
    """The pace of one table. Threads may share it. root: is for messages.

    _left: rows by file that compactions have yet to process; _pending: the number of compactions; _round: grows when
    all are done, so that a waiting thread notices it even if the next compaction has begun by then.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._changed = threading.Condition()
        self._round = 0
        self._reset()

    def _reset(self) -> None:
        self._round += 1
        self._left: dict[str, int] = {}
        self._pending = self._finished = self._appended = 0
        self._done = 0.0

    def paced(self, work: Callable[[], None], new_rows: Mapping[str, int]) -> Callable[[], None]:
        """Hand the files over, and return the work, at whose end they are finished."""
        new_files = self.hand_over(new_rows)

        def paced_work() -> None:
            try:
                work()
            finally:
                self.finish(new_files)

        return paced_work

    def hand_over(self, rows_of_files: Mapping[str, int]) -> frozenset[str]:
        """Register another compaction of these level-0 files. Return those that no other compaction has, for `finish`.

        {"f": 800}                {"f"}
        {"f": 800, "g": 100}      {"g"}: f counts once, for the compaction that has it first
        """
        with self._changed:
            new_files = rows_of_files.keys() - self._left.keys()
            self._left.update(rows_of_files)
            self._pending += 1
            return frozenset(new_files)

    def rows_done(self, rows: float) -> None:
        """Note that a compaction has processed this many more rows of level 0."""
        with self._changed:
            self._advance(self._done + rows)

    def finish(self, files: Iterable[str]) -> None:
        """Note that a compaction is done or has failed. files: what `hand_over` returned for it."""
        with self._changed:
            self._finished += sum(self._left.pop(name) for name in files)
            self._pending -= 1
            if self._pending == 0:
                self._reset()
            # `rows_done` reported a share of its work; now all rows that were handed over are done.
            self._advance(max(self._done, self._finished))

    def follow(self, rows: int) -> None:
        """Wait after an append of so many rows, as the module text says."""
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
                    "an append to %s waited another %.0f s for compaction, which has not finished all of %d rows",
                    self._root,
                    _LONG_SECONDS,
                    sum(self._left.values()),
                )

    def _advance(self, done: float) -> None:
        self._done = done
        self._changed.notify_all()

    def _is_ahead(self, appended: int) -> bool:
        return appended > self._done + sum(self._left.values()) // _SLACK_PARTS
