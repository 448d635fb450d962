"""A job: copies the tables of a database, follows its log, and keeps both exactly once across restarts.

    start ─► check the server ─► publication, slot ─► targets, chunks ─► [ round ─► one chunk of each copy ]*
             a round: log ─► changes ─► schema ─► one commit for each touched table ─► confirm

All that a job must remember is in tables: the position of a target in its own snapshots (`Target.position`), chunks and
forms of tables beside it. The slot is confirmed after all commits of a round, so a job that is killed anywhere gets the
round again, and targets that have it skip it.

A server or a warehouse that does not answer is tried again (`retries.py`): the job ends its sessions and begins as a
new process would. At the start it is an error at once, because a person is likely to be there.

Raises InvalidError for a server, slot or table that a job cannot follow, StorageError for a server that does not
answer, and what commits raise.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from widetable import InvalidError, StorageError
from widetable.connector import WarningCode, arguments, counted, warn
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.captured_tables import CapturedTables
from widetable_cdc.jobs.config import SyncConfig, config_of, read_config
from widetable_cdc.jobs.engine_job import EngineJob
from widetable_cdc.jobs.followed_states import Status
from widetable_cdc.jobs.retries import Retries
from widetable_cdc.jobs.round import run_round
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.jobs.sync_status import SyncStatus
from widetable_cdc.jobs.verification import Verification, VerifyReport

_log = logging.getLogger("widetable")
# New tables are looked for that often, while the job runs.
_LOOK_SECONDS = 10.0
COPIED = "copied"
CAUGHT_UP = "caught-up"


@dataclass
class _Goal:
    """When a run ends. until: as `Sync.run` takes it. lsn: the position that it stands for, once it is known."""

    until: str | int | None
    lsn: int | None = None

    def set(self, link: SourceLink) -> None:
        """Fix the position, when the run begins; a run that is tried again keeps it."""
        if self.lsn is None and self.until == CAUGHT_UP:
            self.lsn = link.server_lsn()
        elif isinstance(self.until, int):
            self.lsn = self.until

    def is_reached(self, link: SourceLink, tables: CapturedTables) -> bool:
        """Return whether the tables have all."""
        if self.until is None or tables.copying() or tables.are_ending():
            return False
        return self.lsn is None or link.position >= self.lsn


class Sync:
    """A job of change data capture.

    Parameters
    ----------
    config : SyncConfig, str, Path or dict
        The configuration, the path of its TOML file, or its entries.

    Raises
    ------
    InvalidError
        An entry of the configuration is unknown, missing or wrong.
    NotFoundError
        There is no such file.

    Examples
    --------
    >>> import widetable_cdc
    >>> config = {
    ...     "name": "shop",
    ...     "tables": ["public.*"],
    ...     "source": {"dsn": "host=db dbname=shop"},
    ...     "target": {"warehouse": "warehouse", "database": "shop"},
    ... }
    >>> job = widetable_cdc.Sync(config)
    >>> job.config.user
    'cdc/shop'
    """

    def __init__(self, config: SyncConfig | str | Path | Mapping[str, Any]) -> None:
        if isinstance(config, str | Path):
            config = read_config(config)
        if not isinstance(config, SyncConfig):
            config = config_of(arguments.mapping(config, "config"))
        self.config = config
        self._link: SourceLink | None = None
        self._tables: CapturedTables | None = None
        # Processes of the server that served sessions which were lost: it may not know that yet.
        self._left: set[int] = set()
        self._engine = None if config.engine is None else EngineJob(config, config.engine)

    def run(
        self, until: str | int | None = None, stop: threading.Event | None = None
    ) -> SyncStatus:
        """Copy and follow the database.

        Parameters
        ----------
        until : str or int, default None
            "copied": end when all tables are copied. "caught-up": when the tables have all that the source had at the
            start as well. A number: when they have all up to this LSN, or position in a binlog. None: run until `stop`.
        stop : threading.Event, default None
            Ends the job after the round or chunk that runs.

        Returns
        -------
        SyncStatus
            The state of the job at its end.

        Raises
        ------
        InvalidError
            The server, the slot, or a table does not allow it, or another process has the slot.
        StorageError
            The server or the warehouse does not answer at the start, or for longer than the job tries again.
        ConflictError
            Another process writes under the job's name.
        """
        goal = _Goal(_checked_goal(until))
        stop = (
            threading.Event() if stop is None else arguments.instance(stop, threading.Event, "stop")
        )
        if self._engine is not None:
            return self._engine.run(goal.until, stop)
        retries = Retries(self.config.limits.retry_seconds(has_goal=until is not None))
        self.prepare(keep=True)
        try:
            while True:
                try:
                    self.prepare(keep=True)
                    self._follow(goal, stop, retries)
                    return self.status()
                except StorageError as error:
                    self._pause(error, retries, stop)
        finally:
            self.close()

    def prepare(self, *, keep: bool = False) -> None:
        """Check the server, and make the publication, the slot, the targets and the plan of the copy.

        Parameters
        ----------
        keep : bool, default False
            Keep the sessions open, so that no other process gets the slot. `close` ends them.

        Raises
        ------
        InvalidError
            The server, the slot, or a table does not allow it, or another process has the slot.
        StorageError
            The server or the warehouse does not answer.
        """
        self._check("prepare", "Call run, which makes all that the job needs.")
        if self._link is None:
            link = SourceLink(self.config)
            try:
                link.end_sessions(self._left)
                tables = CapturedTables(self.config)
                tables.check_sections(link)
                applied = max((each or 0 for each in tables.positions().values()), default=0)
                link.prepare(tables.server, is_new=not tables.states, applied=applied)
                tables.take_in(link)
            except BaseException:
                link.close()
                raise
            self._link, self._tables = link, tables
            self._left.clear()
        if not keep:
            self.close()

    def close(self) -> None:
        """End the sessions with the server."""
        if self._link is not None:
            self._link.close()
        self._link = self._tables = None

    def status(self) -> SyncStatus:
        """Read the state of the job.

        Returns
        -------
        SyncStatus
            Its tables, in the order of their names, and its slot.

        Raises
        ------
        StorageError
            The server or the warehouse does not answer.
        """
        if self._engine is not None:
            return self._engine.status()
        tables = self._tables or CapturedTables(self.config)
        if self._link is not None:
            return tables.status(self._link.slot_status())
        with SourceLink.looking(self.config) as link:
            return tables.status(link.slot_status())

    def verify(self, table: str | None = None) -> VerifyReport:
        """Compare tables with the source, cell by cell. The job may be running meanwhile.

        Parameters
        ----------
        table : str, default None
            One table of the source, as schema.table. None: all that are copied or streaming.

        Returns
        -------
        VerifyReport
            For each table the keys that differ: a row that is missing, one too many, or other values.

        Raises
        ------
        NotFoundError
            The job has no such table.
        StorageError
            The server or the warehouse does not answer.
        """
        name = None if table is None else arguments.text(table, "table")
        self._check("verify", "Compare the tables with the database by a client of it.")
        with SourceLink.looking(self.config) as link:
            comparing = Verification(self.config, link)
            tables = CapturedTables(self.config).opened(name)
            compared = tuple(comparing.compared(each) for each in tables)
            status = link.slot_status()
        behind = max(0, status.server_lsn - (status.confirmed_lsn or status.server_lsn))
        return VerifyReport(compared, behind)

    def pause(self, table: str) -> None:
        """Leave a table out from now on. A job that runs notices when it starts again.

        Parameters
        ----------
        table : str
            The table of the source, as schema.table.

        Raises
        ------
        NotFoundError
            The job has no such table.
        """
        name = arguments.text(table, "table")
        self._check("pause", "Add the table to exclude, and give it to another job later.")
        CapturedTables(self.config).mark(name, Status.PAUSED, "paused by hand")

    def resume(self, table: str, *, recopy: bool = False) -> None:
        """Take a parked or paused table in again, or copy a table again, with the next start of the job.

        Parameters
        ----------
        table : str
            The table of the source, as schema.table.
        recopy : bool, default False
            Copy the table again. A table that was left out must be: its changes were not kept.

        Raises
        ------
        InvalidError
            The table was left out, and `recopy` is not given.
        NotFoundError
            The job has no such table.
        """
        name, again = arguments.text(table, "table"), arguments.flag(recopy, "recopy")
        self._check("resume", "Give the job another name to copy its tables again.")
        CapturedTables(self.config).resume(name, recopy=again)

    def drop_slot(self) -> None:
        """Drop the slot and the publication of the job, so that the server keeps no log for it.

        The next start copies all tables again.

        Raises
        ------
        StorageError
            The server does not answer.
        """
        self._check("drop_slot", "End the job: the server keeps nothing for it.")
        with SourceLink.looking(self.config) as link:
            link.drop()
        CapturedTables(self.config).forget()

    def _check(self, method: str, action: str) -> None:
        """Refuse what needs PostgreSQL, where Debezium reads the database."""
        if self._engine is not None:
            raise self._engine.refused(f"Sync.{method}", action)

    @property
    def _linked(self) -> SourceLink:
        assert self._link is not None, "prepare has made it"
        return self._link

    def _pause(self, error: StorageError, retries: Retries, stop: threading.Event) -> None:
        """End the sessions, and wait before the job tries again; raise the error if it does not."""
        seconds = None if stop.is_set() else retries.pause(time.monotonic())
        if seconds is None:
            raise error
        warn(
            _log,
            WarningCode.JOB_TRIES_AGAIN,
            "%s: tries again in %.3g s, after %s: %s",
            self.config.name,
            seconds,
            counted(retries.failures, "failure"),
            error,
        )
        if self._link is not None:
            self._left |= self._link.pids
        self.close()
        stop.wait(seconds)

    def _follow(self, goal: _Goal, stop: threading.Event, retries: Retries) -> None:
        link, tables = self._linked, self._tables
        assert tables is not None, "prepare has made it"
        goal.set(link)
        looked = time.monotonic()
        link.warn_of_slot()
        while not stop.is_set():
            has_moved = run_round(link, tables)
            has_moved |= self._copy(link, tables, stop)
            tables.end_copies(link.position)
            if not has_moved:
                has_moved = tables.pass_on(link.position)
            if goal.is_reached(link, tables):
                tables.pass_on(link.position)
                tables.complete_barriers(link.position, ends=True)
                return
            tables.complete_barriers(link.position)
            if time.monotonic() - looked > _LOOK_SECONDS:
                link.warn_of_slot()
                tables.take_in(link)
                looked = time.monotonic()
            if retries.failures:
                _log.info(
                    "%s: goes on, after %s", self.config.name, counted(retries.failures, "failure")
                )
                retries.went_well()
            if not has_moved:
                stop.wait(self.config.limits.max_delay_millis / 1000)

    def _copy(self, link: SourceLink, tables: CapturedTables, stop: threading.Event) -> bool:
        """Read the next chunk of each table that is copied; return whether one was read."""
        has_moved = False
        for table in tables.to_copy(link.position):
            if stop.is_set():
                break
            has_moved |= self._copy_next(link, table, tables)
        return has_moved

    def _copy_next(self, link: SourceLink, table: CapturedTable, tables: CapturedTables) -> bool:
        if not tables.copy_next(link, table):
            return False
        if table.plan is None:
            return True
        chunks = len(table.plan.states)
        done = chunks - len(table.plan.to_read())
        _log.info(
            "%s: %s: %s of %s copied",
            self.config.name,
            table.state.relation,
            done,
            counted(chunks, "chunk"),
        )
        return True


def _checked_goal(until: str | int | None) -> str | int | None:
    is_lsn = isinstance(until, int) and not isinstance(until, bool) and until >= 0
    if until is None or until in (COPIED, CAUGHT_UP) or is_lsn:
        return until
    raise InvalidError(
        "until",
        found=repr(until),
        expected=f"{COPIED!r}, {CAUGHT_UP!r}, an LSN as a number, or None",
        action="Pass one of these.",
    )
