"""The sessions of a job with its server: what it asks, its slot, and how far it has confirmed the log.

`prepare` checks the server, takes named tables into the publication, and makes the slot where the job is new. A slot
that is gone, though the job has tables, is an error: changes were lost, and only a new copy has them. Raises
InvalidError for that and for what the checks find, StorageError for a server that does not answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from widetable import InvalidError
from widetable.connector import WarningCode, warn
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.followed_server import FollowedServer
from widetable_cdc.log.log_decoder import LogDecoder
from widetable_cdc.source.catalog_tables import StoredFiles, source_tables, stored_files
from widetable_cdc.source.fail_over import check_fail_over, left_at
from widetable_cdc.source.publication import Publication, floor_xid
from widetable_cdc.source.server_checks import (
    check_same_server,
    check_server,
    server_facts,
    slot_warning,
    table_problem,
)
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import Connection, open_session
from widetable_cdc.source.slot import Slot, SlotStatus
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.transport import PeekTransport

# A job that confirms nothing for so long does not run, or stands.
_STANDS_SECONDS: Final = 5.0
# The server notices within it that a session has ended.
_ENDS_SECONDS: Final = 3.0
_log = logging.getLogger("widetable")
# A segment of the log has 16 MB.
_HELD_BYTES: Final = 32 << 20
_LOG_RUNNING: Final = """
DO $$ BEGIN
  IF to_regprocedure('pg_log_standby_snapshot()') IS NOT NULL
     AND has_function_privilege('pg_log_standby_snapshot()', 'EXECUTE') THEN
    PERFORM pg_log_standby_snapshot();
  END IF;
END $$
"""


class SourceLink:
    """The sessions of one job. transport, decoder: of the log, after `prepare`. has_failed_over: the server has taken
    over from that of the last run, so what ran there at the end may not have happened here.
    """

    transport: PeekTransport

    def __init__(self, config: SyncConfig) -> None:
        self.config = config
        self.connection: Connection = open_session(config.source.dsn, config.name)
        self._pid = self.connection.info.backend_pid
        self.decoder = LogDecoder()
        self.position = 0
        self.has_failed_over = False
        self._publication = Publication(self.connection, config.source.publication)
        self._slot = Slot(self.connection, config.source.slot)
        self._is_prepared = False
        self._has_made_slot = False
        self._has_warned = False

    @classmethod
    @contextmanager
    def looking(cls, config: SyncConfig) -> Iterator[SourceLink]:
        """Open a session that asks only, and close it at the end."""
        link = cls(config)
        try:
            yield link
        finally:
            link.close()

    @property
    def database(self) -> str:
        """The name of the database."""
        return self.connection.info.dbname

    def tables(self) -> dict[str, SourceTable]:
        """Return the tables that the job is to follow, by schema.table, as they are now."""
        listed = source_tables(self.connection, self.config.tables, self.config.exclude)
        return {f"{schema}.{name}": table for (schema, name), table in listed.items()}

    def table(self, schema: str, name: str) -> SourceTable | None:
        """Return a table as it is now; None if there is none."""
        return self.tables().get(f"{schema}.{name}")

    def stored_files(self, oid: int) -> StoredFiles | None:
        """Return where a table's rows lie: elsewhere, where values change without an event. None if it is gone."""
        return stored_files(self.connection, oid, self._publication.name)

    def prepare(self, before: FollowedServer | None, *, is_new: bool, applied: int = 0) -> None:
        """Check the server, and make what the job needs there.

        before: the server of the last run. is_new: the job has no tables yet. applied: the highest position
        that a target has.
        """
        facts = check_server(self.connection, self.config.source.slot)
        status = self._slot.status()
        if before is not None:
            check_same_server(before.facts, facts, status)
            self.has_failed_over = facts.timeline != before.facts.timeline
            if self.has_failed_over:
                end = left_at(self.config.source.dsn, self.config.name, before.facts, facts)
                check_fail_over(before.facts, facts, status, end, applied)
        self.publish(self.tables())
        if status is None:
            if not is_new:
                raise self._gone()
            status = self._slot.create()
            self._has_made_slot = True
        source = self.config.source
        self.transport = PeekTransport(
            source.dsn, self.config.name, source.slot, source.publication
        )
        self._is_prepared = True
        self.position = status.confirmed_lsn or 0

    def why_again(self, is_copying: bool, was_out: bool) -> str | None:
        """Return why a table is copied again; None if it is not. was_out: of the publication, for a while.

        A copy that began on another server may show transactions that were lost with it.
        """
        if was_out:
            return "it was out of the publication"
        return "the server failed over meanwhile" if is_copying and self.has_failed_over else None

    @property
    def pids(self) -> set[int]:
        """The processes of the server that serve the sessions."""
        return {self._pid} | (self.transport.pids if self._is_prepared else set())

    def end_sessions(self, pids: Iterable[int]) -> None:
        """End sessions of this job that it has lost: the server may not know yet, and they have the slot."""
        with server_errors("the lost sessions of the job"):
            self.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid = ANY (%s) AND application_name = current_setting('application_name') "
                "AND usename = current_user",
                (list(pids),),
            )

    def server(self) -> FollowedServer:
        """Return the server as it is now, for the next run."""
        return FollowedServer(server_facts(self.connection), self._publication.members())

    def publish(self, tables: Mapping[str, SourceTable]) -> None:
        """Take those tables into the publication that can be followed: others would refuse writes of their users."""
        self._publication.ensure(each for each in tables.values() if table_problem(each) is None)

    def take_out(self, tables: Iterable[SourceTable]) -> None:
        """Let the server send no changes of tables that are not followed."""
        self._publication.take_out(tables)

    def let_go(self) -> None:
        """Let the server forget what it holds for the slot though nothing in it is ours.

        The slot's restart position follows only records of the running transactions, which the server writes every 15
        seconds, and on demand from PostgreSQL 16 on for a user that may.
        """
        if self.slot_status().held_bytes > _HELD_BYTES:
            with server_errors("pg_log_standby_snapshot"):
                self.connection.execute(_LOG_RUNNING)

    def confirm(self, lsn: int) -> None:
        """Let the server forget the log up to an LSN."""
        self.transport.confirm(lsn)
        self.position = lsn

    def floor_xid(self) -> int:
        """Return the transaction below which all that run now lie."""
        return floor_xid(self.connection)

    def highest_position(self) -> int:
        """Return the LSN that no target of this server is ahead of: where a new slot begins, else the end of the log.

        A target that is ahead has changes of another server, and would skip those of this one.
        """
        return self.position if self._has_made_slot else self.server_lsn()

    def server_lsn(self) -> int:
        """Return up to where the server's log is written."""
        return self.slot_status().server_lsn

    def passes(self, lsn: int) -> bool:
        """Wait until another process has confirmed an LSN; return False where it does not go on for a while."""
        before, since = -1, time.monotonic()
        while time.monotonic() - since < _STANDS_SECONDS:
            confirmed = self.slot_status().confirmed_lsn or 0
            if confirmed >= lsn:
                return True
            if confirmed > before:
                before, since = confirmed, time.monotonic()
            time.sleep(0.1)
        return False

    def slot_status(self) -> SlotStatus:
        """Return the slot's standing; that of the server alone if there is no slot."""
        return self._slot.status() or SlotStatus(
            self._slot.name, None, None, None, None, None, None, None, self._slot.server_lsn()
        )

    def warn_of_slot(self) -> None:
        """Log what a person should know of the slot, once until the slot is well again."""
        warning = slot_warning(self.slot_status(), self.config.limits.max_held_bytes)
        if warning is not None and not self._has_warned:
            warn(_log, WarningCode.SLOT_IN_DANGER, "%s: %s", self.config.name, warning)
        self._has_warned = warning is not None

    def drop(self) -> None:
        """Drop the slot and the publication. Raises InvalidError that names the session of a job that has the slot."""
        self._slot.reserve(_ENDS_SECONDS)
        self._slot.drop()
        self._publication.drop()

    def close(self) -> None:
        """Close all sessions."""
        if self._is_prepared:
            self.transport.close()
            self._is_prepared = False
        self.connection.close()

    def _gone(self) -> InvalidError:
        return InvalidError(
            f"the replication slot {self.config.source.slot!r}",
            found="no such slot, though the job has copied tables by it",
            expected="the slot that the job made",
            action="Changes since it was dropped are not in the tables. Run `widetable cdc drop-slot FILE`, then run "
            "the job again: it copies the tables again.",
        )
