"""A replication slot of the job: where the server keeps the log for us, and what it says of itself.

    wait for running transactions ─► create ─► confirmed_lsn ── advance ──► confirmed_lsn ...   drop
                                               restart_lsn (the log is kept from here on: held_bytes)

A connection and the slot's name go in. The slot's standing comes out. Only one session advances a slot: `reserve` takes
an advisory lock for as long as its connection lives, because a slot that is peeked at is active for moments only, and
two jobs would share it unseen. Raises InvalidError for a slot that another session has, and StorageError when the
server does not answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from psycopg import errors

from widetable import InvalidError
from widetable_cdc.source.lsn import lsn_of, lsn_text
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import Connection

PLUGIN: Final = "pgoutput"
# `wal_status`
UNRESERVED: Final = "unreserved"
LOST: Final = "lost"
_SYNCHRONISES: Final = 170000
# What follows is in the log up to the flushed position: a peek reads no further, so nothing beyond may be confirmed.
SERVER_LSN: Final = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END"
_STATUS: Final = f"""
SELECT s.plugin, s.database, s.active_pid, s.restart_lsn::text, s.confirmed_flush_lsn::text,
       s.wal_status, to_jsonb(s) ->> 'invalidation_reason', to_jsonb(s) ->> 'synced', lsn::text
FROM pg_replication_slots AS s, LATERAL (SELECT {SERVER_LSN} AS lsn) AS server
WHERE s.slot_name = %s
"""
_ADVANCE: Final = """
SELECT a.end_lsn::text FROM pg_replication_slots AS s,
LATERAL pg_replication_slot_advance(s.slot_name, greatest(%s::text::pg_lsn, s.confirmed_flush_lsn)) AS a
WHERE s.slot_name = %s
"""
_LOCK: Final = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"
_OWNER: Final = """
SELECT l.pid, a.application_name FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32) | l.objid::bigint = hashtextextended(%s, 0)
"""


@dataclass(frozen=True)
class SlotStatus:
    """A slot. active_pid: of the session that reads it now. restart_lsn: from here on the server keeps the log; None
    when it is lost. confirmed_lsn: changes up to it are never sent again. wal_status: reserved, extended, unreserved or
    lost. reason: why the server has given the slot up. server_lsn: up to where the log is flushed. is_synced: the
    server made it as a standby, from the slot of its primary.
    """

    name: str
    plugin: str | None
    database: str | None
    active_pid: int | None
    restart_lsn: int | None
    confirmed_lsn: int | None
    wal_status: str | None
    reason: str | None
    server_lsn: int
    is_synced: bool = False

    @property
    def held_bytes(self) -> int:
        """How much of the log the server keeps for this slot."""
        return 0 if self.restart_lsn is None else max(0, self.server_lsn - self.restart_lsn)


class Slot:
    """A slot of the database that `connection` is of."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.name = name
        self._connection = connection
        self._subject = f"the replication slot {name!r}"

    def status(self) -> SlotStatus | None:
        """Return the slot's standing; None if there is no such slot."""
        with server_errors(self._subject):
            row = self._connection.execute(_STATUS, (self.name,)).fetchone()
        if row is None:
            return None
        plugin, database, pid, restart, confirmed, wal_status, reason, synced, server = row
        return SlotStatus(
            name=self.name,
            plugin=_text(plugin),
            database=_text(database),
            active_pid=None if pid is None else int(str(pid)),
            restart_lsn=None if restart is None else lsn_of(str(restart)),
            confirmed_lsn=None if confirmed is None else lsn_of(str(confirmed)),
            wal_status=_text(wal_status),
            reason=_text(reason),
            server_lsn=lsn_of(str(server)),
            is_synced=synced == "true",
        )

    def server_lsn(self) -> int:
        """Return up to where the server's log is flushed, with or without the slot."""
        with server_errors(self._subject):
            row = self._connection.execute(f"SELECT ({SERVER_LSN})::text").fetchone()
        assert row is not None, "an expression returns a row"
        return lsn_of(str(row[0]))

    def create(self) -> SlotStatus:
        """Make the slot. It waits until all transactions that run now have ended. Publications come first: a change is
        sent only if its table was in a publication when the change was made. Standbys may synchronise the slot, where
        the server knows of that.
        """
        with server_errors(self._subject):
            knows = self._connection.info.server_version >= _SYNCHRONISES
            failover = ", failover => NOT pg_is_in_recovery()" if knows else ""
            self._connection.execute(
                f"SELECT pg_create_logical_replication_slot(%s, %s{failover})", (self.name, PLUGIN)
            )
        status = self.status()
        assert status is not None
        return status

    def reserve(self, wait_seconds: float = 10.0) -> None:
        """Take the slot for this connection, until it closes. A job that was killed keeps it until the server notices,
        so this waits a little. Raises InvalidError that names the session that has the slot.
        """
        lock = f"widetable cdc slot {self.name}"
        timeout = f"{max(1, round(wait_seconds * 1000))}ms"
        try:
            with (
                server_errors(self._subject, but=errors.LockNotAvailable),
                self._connection.transaction(),
            ):
                self._connection.execute("SELECT set_config('lock_timeout', %s, true)", (timeout,))
                self._connection.execute(_LOCK, (lock,))
        except errors.LockNotAvailable:
            raise self._in_use(lock) from None

    def advance(self, lsn: int) -> int:
        """Let the server forget the log up to `lsn`, and return the position that the slot has now. A position behind
        the slot's changes nothing, and one beyond the flushed log is cut to it (both measured, PostgreSQL 18.6).
        """
        with server_errors(self._subject):
            row = self._connection.execute(_ADVANCE, (lsn_text(lsn), self.name)).fetchone()
        if row is None:
            raise no_slot(self.name)
        return lsn_of(str(row[0]))

    def drop(self) -> None:
        """Remove the slot, so that the server keeps no log for it; nothing if there is none."""
        with server_errors(self._subject):
            self._connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                "WHERE slot_name = %s",
                (self.name,),
            )

    def _in_use(self, lock: str) -> InvalidError:
        with server_errors(self._subject):
            owner = self._connection.execute(_OWNER, (lock,)).fetchone()
        pid, application = owner if owner is not None else ("that just ended", None)
        who = f" ({application})" if application else ""
        return InvalidError(
            self._subject,
            found=f"the session with pid {pid}{who} has it",
            expected="one job for a slot",
            action="Stop the other job (on the server: SELECT pg_terminate_backend(pid)), "
            "or give this job its own slot.",
        )


def no_slot(name: str) -> InvalidError:
    """Return the error of a slot that is gone."""
    return InvalidError(
        f"the replication slot {name!r}",
        found="no slot of that name",
        expected="the slot that the job made",
        action="Changes since it was dropped cannot be read. Run `widetable cdc drop-slot FILE`, then run the job "
        "again: it copies the tables again.",
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
