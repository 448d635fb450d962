"""A job: copies the tables of a database, follows its log, and keeps both exactly once across restarts.

    start ─► check the server ─► publication, slot ─► targets, chunks ─► [ round ─► chunks, several at once ]*
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

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from widetable.connector import arguments
from widetable_cdc.jobs.captured_tables import CapturedTables
from widetable_cdc.jobs.config import SyncConfig, config_of, read_config
from widetable_cdc.jobs.engine_job import EngineJob
from widetable_cdc.jobs.followed_states import Status
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.jobs.sync_status import SyncStatus
from widetable_cdc.jobs.verification import Verification, VerifyReport
from widetable_cdc.running.sync_run import SyncRun, checked_goal


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
        self._run: SyncRun | None = None
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
        goal = checked_goal(until)
        stop = (
            threading.Event() if stop is None else arguments.instance(stop, threading.Event, "stop")
        )
        if self._engine is not None:
            return self._engine.run(goal, stop)
        run = self._prepared()
        try:
            run.follow(goal, stop)
            return self.status()
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
        self._prepared()
        if not keep:
            self.close()

    def close(self) -> None:
        """End the sessions with the server."""
        if self._run is not None:
            self._run.close()
        self._run = None

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
        if self._run is not None and self._run.is_open:
            return self._run.status()
        tables = CapturedTables(self.config)
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

    def _prepared(self) -> SyncRun:
        if self._run is None:
            run = SyncRun(self.config)
            run.open()
            self._run = run
        return self._run
