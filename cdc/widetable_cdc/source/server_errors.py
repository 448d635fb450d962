"""What a server answers when it refuses, as the errors of this package.

A failed statement of psycopg or of ADBC goes in. NotFoundError, InvalidError or StorageError comes out, decided by the
SQLSTATE: a table that is not there, what a person must correct, and what may pass by itself. A connection that was
refused has no SQLSTATE in libpq's interface, so `refused_connection` asks whether the server accepts connections at
all; it keeps the secrets of the dsn out of its text.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import adbc_driver_manager
import psycopg
from psycopg import pq

from widetable import InvalidError, NotFoundError, StorageError, WidetableError
from widetable_cdc.source.server_address import address_text, without_secrets

_NOT_THERE: Final = {"42P01", "42704", "3F000", "42703"}  # table, object, schema, column
# Connection, transaction rolled back, resources, cancelled or in use, operator intervention, system error, internal.
_PASSING: Final = ("08", "25P03", "40", "53", "55P", "57", "58", "XX")
_IN_USE: Final = "55006"
LOCK_TIMEOUT: Final = "55P03"
_LIMIT: Final = "53400"  # of a setting, such as max_replication_slots
_FULL: Final = ("too many", "remaining connection slots")
# What the client says of a connection that was cut before the server had answered.
_CUT: Final = (
    "closed the connection",
    "could not receive data",
    "could not send data",
    "invalid response",
    "lost synchronization",
    "message contents do not agree",
    "no answer for",
    "SYSCALL",
    "reset by peer",
    "timeout expired",
)
_STARTING: Final = ("the database system is", "terminating connection", "shutting down")
_ANSWERS: Final = {pq.Ping.OK, pq.Ping.NO_ATTEMPT}

ServerError = psycopg.Error | adbc_driver_manager.Error


@contextmanager
def server_errors(
    subject: str, but: type[psycopg.Error] | tuple[()] = ()
) -> Generator[None, None, None]:
    """Raise errors of the server within as errors of this package. subject: such as `the replication slot 'a'`. but:
    what passes unchanged.
    """
    try:
        yield
    except but:
        raise
    except (psycopg.Error, adbc_driver_manager.Error) as error:
        raise server_error(error, subject) from None


def server_error(error: ServerError, subject: str) -> WidetableError:
    """Return the error to raise for a statement that failed."""
    state = error.sqlstate or ""
    said = _said(error) + (f" (SQLSTATE {state})" if state else "")
    if state in _NOT_THERE:
        return NotFoundError(
            subject,
            found=said,
            expected="an object that exists",
            action="Check the name, or make the object first.",
        )
    if state == _IN_USE:
        return InvalidError(
            subject,
            found=said,
            expected="no other session that uses it",
            action="Stop the other reader: SELECT pg_terminate_backend(pid), on the server.",
        )
    if state == _LIMIT:
        return InvalidError(
            subject,
            found=said,
            expected="room below the limits of the server's settings",
            action="Drop a slot that no job needs (SELECT slot_name, active FROM pg_replication_slots), or raise "
            "max_replication_slots and restart the server.",
        )
    if state == LOCK_TIMEOUT:
        return StorageError(
            subject,
            found=said,
            expected="tables that no transaction alters, truncates or locks for long",
            action="End that transaction (pg_stat_activity, pg_locks); the job goes on where it was.",
        )
    if not state or state.startswith(_PASSING):
        return StorageError(
            subject,
            found=said,
            expected="a server that answers",
            action="Start the job again when the server answers; it goes on where it was.",
        )
    return InvalidError(
        subject,
        found=said,
        expected="a statement that the server carries out",
        action="Correct what the server names, such as a privilege, and start the job again.",
    )


def refused_connection(error: ServerError, dsn: str, conninfo: str) -> WidetableError:
    """Return the error to raise where no connection came about. conninfo: of the session that the dsn was meant for."""
    subject = f"the source, {address_text(dsn)}"
    said = without_secrets(_said(error), dsn)
    is_passing = any(words in said for words in (*_FULL, *_CUT, *_STARTING))
    if not is_passing and pq.PGconn.ping(conninfo.encode()) in _ANSWERS:
        return InvalidError(
            subject,
            found=said,
            expected="a server that accepts this user and database",
            action="Correct the dsn, or what the server allows this user (pg_hba.conf, its password).",
        )
    return StorageError(
        subject,
        found=said,
        expected="a server that accepts connections",
        action="Start the server, or correct host and port of the dsn, and start the job again.",
    )


def _said(error: ServerError) -> str:
    """Return the server's first line. The lines below quote the statement."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
