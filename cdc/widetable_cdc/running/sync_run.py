"""A job that runs, step by step: a round, then chunks of the full copy.

    open ─► begin ─► [ step ]* ─► close        a step: round ─► chunks ─► copies that end ─► barriers of idle tables
                     ▲      │
                     └──────┴─ no answer: the sessions end, a pause (`retries.py`), and it begins as a new process would

`follow` steps until a goal is reached; with Spark each tick of a query steps for a while. One thread at a time uses it,
but for `when_has`. Raises InvalidError for a server, slot or table that a job cannot follow, StorageError for a server
or a warehouse that does not answer for longer than the job tries again, and what commits raise.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from widetable import InvalidError, StorageError
from widetable.connector import WarningCode, counted, warn
from widetable_cdc.jobs.captured_tables import CapturedTables
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.retries import Retries
from widetable_cdc.jobs.round import RoundCounts, run_round
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.jobs.sync_status import SyncProgress, SyncStatus
from widetable_cdc.running.chunk_copier import ChunkCopier
from widetable_cdc.running.chunk_threads import ChunkThreads, RunChunks

_log = logging.getLogger("widetable")
# New tables are looked for that often, while the job runs.
_LOOK_SECONDS: Final = 10.0
COPIED: Final = "copied"
CAUGHT_UP: Final = "caught-up"
Goal = str | int | None


class SyncRun:
    """A job that runs. run: carries out tasks of chunks; None for threads of this process.

    is_open: whether it has sessions with the server. at_goal: whether the goal of `begin` was reached.
    """

    def __init__(self, config: SyncConfig, run: RunChunks | None = None) -> None:
        self._config = config
        self._run = ChunkThreads(config.limits.chunks_at_once) if run is None else run
        self._opened: tuple[SourceLink, CapturedTables] | None = None
        # Processes of the server that served sessions which were lost: it may not know that yet.
        self._left: set[int] = set()
        self._copier = ChunkCopier(config, self._run)
        self._counts = RoundCounts()
        self._retries = Retries(None)
        self._goal: Goal = None
        # The LSN that the goal stands for, once it is known: that of "caught-up" is the end of the log at the start.
        self._until: int | None = None
        self._waiting: list[tuple[int, threading.Event]] = []
        self._looked = 0.0
        self.at_goal = False

    def open(self) -> None:
        """Check the server, and make the publication, the slot, the targets and the plan of the copy."""
        if self._opened is not None:
            return
        link = SourceLink(self._config)
        try:
            link.end_sessions(self._left)
            tables = CapturedTables(self._config)
            tables.check_sections(link)
            applied = max((each or 0 for each in tables.positions().values()), default=0)
            link.prepare(tables.server, is_new=not tables.states, applied=applied)
            tables.take_in(link)
            # The last question to the server: who calls drops a run that failed to open.
            link.warn_of_slot()
        except BaseException:
            link.close()
            raise
        self._opened = link, tables
        self._left.clear()
        self._looked = time.monotonic()

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def link(self) -> SourceLink:
        """The sessions with the server, which are open."""
        assert self._opened is not None, "open has made it"
        return self._opened[0]

    @property
    def tables(self) -> CapturedTables:
        """The tables of the job, which is open."""
        assert self._opened is not None, "open has made it"
        return self._opened[1]

    def begin(self, goal: Goal) -> None:
        """Set the goal, one of `checked_goal`."""
        self._retries = Retries(self._config.limits.retry_seconds(has_goal=goal is not None))
        self._goal, self._until = goal, None
        self.at_goal = False

    def follow(self, goal: Goal, stop: threading.Event) -> None:
        """Step until the goal is reached, or `stop`."""
        self.open()
        self.begin(goal)
        while not stop.is_set():
            has_moved = self.attempt(stop)
            if self.at_goal:
                return
            if not has_moved:
                stop.wait(self.pause_seconds)

    @property
    def pause_seconds(self) -> float:
        """How long to wait behind a step that had nothing to do."""
        return self._config.limits.max_delay_millis / 1000

    def attempt(self, stop: threading.Event) -> bool:
        """Do a step, and look at the goal; return whether there was something to do.

        Where nobody answers, the sessions end, and this waits a while: the next attempt opens others. stop: ends the
        step after the chunks that run, and the pause.
        """
        try:
            self.open()
            if self._until is None and self._goal is not None:
                self._until = self._lsn_of(self._goal)
            has_moved = self.step(stop)
            self._look_at_goals()
        except StorageError as error:
            self._pause(error, stop)
            return False
        if self._retries.failures:
            failures = counted(self._retries.failures, "failure")
            _log.info("%s: goes on, after %s", self._config.name, failures)
            self._retries.went_well()
        return has_moved

    def step(self, stop: threading.Event) -> bool:
        """Do a step; return whether there was something to do."""
        link, tables = self.link, self.tables
        has_moved = run_round(link, tables, self._counts)
        has_moved |= self.copy(stop)
        tables.end_copies(link.position)
        if not has_moved:
            has_moved = tables.pass_on(link.position)
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            link.warn_of_slot()
            tables.take_in(link)
            self._looked = time.monotonic()
        return has_moved

    def copy(self, stop: threading.Event) -> bool:
        """Copy chunks for a while; return whether something was done."""
        return self._copier.copy(self.link, self.tables, stop)

    def when_has(self, lsn: int) -> threading.Event:
        """Return what is set when the tables are copied and have all changes up to an LSN. Any thread may ask."""
        event = threading.Event()
        self._waiting.append((lsn, event))
        return event

    def wake(self) -> None:
        """Wake all that wait: the run has ended."""
        for _, event in self._waiting:
            event.set()

    def status(self) -> SyncStatus:
        """Return the state of the job, which is open."""
        return self.tables.status(self.link.slot_status())

    def progress(self) -> SyncProgress:
        """Return what the run has done, and the state of the job, which is open."""
        copier, counts = self._copier, self._counts
        return SyncProgress(
            rows_copied=copier.rows,
            bytes_copied=copier.bytes,
            chunks_copied=copier.chunks,
            changes=counts.changes,
            commits=counts.commits,
            status=self.status(),
        )

    def close(self) -> None:
        """End the sessions with the server."""
        if self._opened is not None:
            self.link.close()
        self._opened = None

    def _lsn_of(self, goal: str | int) -> int | None:
        if goal == CAUGHT_UP:
            return self.link.server_lsn()
        return 0 if goal == COPIED else checked_lsn(goal)

    def _look_at_goals(self) -> None:
        """Complete the barriers that are due, and tell who waits."""
        link, tables = self.link, self.tables
        has = -1 if tables.copying() or tables.are_ending() else link.position
        wanted = [each for each in self._waiting if each[0] <= has]
        self.at_goal = self._until is not None and self._until <= has
        if self.at_goal or wanted:
            tables.pass_on(link.position)
        tables.complete_barriers(link.position, ends=self.at_goal)
        for each in wanted:
            each[1].set()
            self._waiting.remove(each)

    def _pause(self, error: StorageError, stop: threading.Event) -> None:
        """End the sessions, and wait before the job tries again; raise the error if it does not."""
        seconds = None if stop.is_set() else self._retries.pause(time.monotonic())
        if seconds is None:
            raise error
        warn(
            _log,
            WarningCode.JOB_TRIES_AGAIN,
            "%s: tries again in %.3g s, after %s: %s",
            self._config.name,
            seconds,
            counted(self._retries.failures, "failure"),
            error,
        )
        if self._opened is not None:
            self._left |= self.link.pids
        self.close()
        stop.wait(seconds)


def checked_goal(until: Goal) -> Goal:
    """Check the argument `until`, and return it."""
    return until if until in (COPIED, CAUGHT_UP) else checked_lsn(until)


def checked_lsn(until: Goal) -> int | None:
    """Return a goal that is no word."""
    if until is None or (isinstance(until, int) and not isinstance(until, bool) and until >= 0):
        return until
    raise InvalidError(
        "until",
        found=repr(until),
        expected=f"{COPIED!r}, {CAUGHT_UP!r}, an LSN as a number, or None",
        action="Pass one of these.",
    )
