"""Connections to the source with the settings on which the texts of values depend.

A dsn and the job's name go in. Connections come out, one of psycopg for questions and one of ADBC for rows as Arrow:
`timezone=UTC, datestyle=ISO, intervalstyle=iso_8601, extra_float_digits=3, bytea_output=hex, client_encoding=UTF8`,
with the application name `widetable cdc/<name>`. Raises InvalidError for a dsn, a user or a database that the server
does not accept, and StorageError for a server that does not answer; neither says a password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import adbc_driver_manager
import psycopg
import pyarrow as pa
from adbc_driver_manager import dbapi as adbc_manager
from adbc_driver_postgresql import dbapi as adbc
from psycopg.abc import PQGen

from widetable_cdc.source.server_address import session_conninfo
from widetable_cdc.source.server_errors import refused_connection
from widetable_cdc.source.watched_session import WatchedSession

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose statements wait for the server only as long as it is at work on them."""

    watch: WatchedSession | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        def waited() -> T:
            return super(_Connection, self).wait(gen, interval, timeout)

        return waited() if self.watch is None else self.watch.call(waited)

    def close(self) -> None:
        super().close()
        if self.watch is not None:
            self.watch.close()


def open_session(dsn: str, name: str) -> Connection:
    """Open a connection whose statements are transactions of their own (autocommit)."""
    conninfo = session_conninfo(dsn, name)
    watch = WatchedSession(conninfo)
    try:
        connection = _Connection.connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        raise refused_connection(error, dsn, conninfo) from None
    watch.connected(connection.info.backend_pid)
    connection.watch = watch
    return connection


@contextmanager
def session(dsn: str, name: str) -> Iterator[Connection]:
    """Open a connection and close it at the end."""
    connection = open_session(dsn, name)
    try:
        yield connection
    finally:
        connection.close()


class ArrowCursor:
    """A statement and its answer. statement: of ADBC, for its options."""

    def __init__(self, cursor: adbc_manager.Cursor, watch: WatchedSession) -> None:
        self._cursor = cursor
        self._watch = watch
        self.statement = cursor.adbc_statement

    def execute(self, statement: str, parameters: list[object] | None = None) -> None:
        """Run a statement."""
        self._watch.call(lambda: self._cursor.execute(statement, parameters))

    def table(self) -> pa.Table:
        """Return the whole answer."""
        return self._watch.call(self._cursor.fetch_arrow_table)

    def reader(self) -> pa.RecordBatchReader:
        """Return the answer batch by batch; take each with `next_batch`."""
        return self._cursor.fetch_record_batch()

    def next_batch(self, reader: pa.RecordBatchReader) -> pa.RecordBatch:
        """Return the next batch of the answer. Raises StopIteration at its end."""
        return self._watch.call(reader.read_next_batch)


class ArrowConnection:
    """A connection whose answers are Arrow. It waits for the server only as long as it is at work on a statement.

    pid: of the server's process.
    """

    def __init__(self, conninfo: str, *, autocommit: bool) -> None:
        self.autocommit = autocommit
        self._watch = WatchedSession(conninfo)
        self._connection: adbc_manager.Connection | None = None
        try:
            self._watch.call(lambda: self._connect(conninfo))
            self.pid = self._server_process()
            self._watch.connected(self.pid)
            if not autocommit:
                self.rollback()
        except BaseException:
            self._watch.end_with(self._disconnect)
            raise

    def _connect(self, conninfo: str) -> None:
        self._connection = adbc.connect(conninfo, autocommit=self.autocommit)

    def _disconnect(self) -> None:
        """Close what `_connect` has opened, also when it opened it after its caller had given up."""
        if self._connection is not None:
            self._connection.close()

    @property
    def _connected(self) -> adbc_manager.Connection:
        assert self._connection is not None, "_connect comes first"
        return self._connection

    def _server_process(self) -> int:
        with self.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid() AS pid")
            return int(cursor.table()["pid"][0].as_py())

    @contextmanager
    def cursor(self) -> Iterator[ArrowCursor]:
        """Open a cursor, and close it at the end with its answer."""
        cursor = self._connected.cursor()
        try:
            yield ArrowCursor(cursor, self._watch)
        finally:
            # The answer of a lost connection has no end to wait for.
            with suppress(adbc_driver_manager.Error, psycopg.Error, OSError):
                self._watch.call(cursor.close)

    def rollback(self) -> None:
        """Undo the transaction."""
        self._watch.call(self._connected.rollback)

    def close(self) -> None:
        """Close it, also when the server is gone."""
        with suppress(adbc_driver_manager.Error, psycopg.Error, OSError):
            self._watch.call(self._disconnect)
        self._watch.close()


def open_arrow_session(dsn: str, name: str, *, autocommit: bool = True) -> ArrowConnection:
    """Open a connection whose answers are Arrow. autocommit: false for one transaction until rollback or commit."""
    conninfo = session_conninfo(dsn, name)
    try:
        return ArrowConnection(conninfo, autocommit=autocommit)
    except (adbc_driver_manager.Error, psycopg.Error) as error:
        raise refused_connection(error, dsn, conninfo) from None
