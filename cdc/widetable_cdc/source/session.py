"""Connections to the source with the settings on which the texts of values depend.

A dsn and the job's name go in. Connections come out, one of psycopg for questions and one of ADBC for rows as Arrow:
`timezone=UTC, datestyle=ISO, intervalstyle=iso_8601, extra_float_digits=3, bytea_output=hex, client_encoding=UTF8`,
with the application name `widetable cdc/<name>`. Raises InvalidError for a dsn, a user or a database that the server
does not accept, and StorageError for a server that does not answer; neither says a password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import adbc_driver_manager
import psycopg
from adbc_driver_manager import dbapi as adbc_manager
from adbc_driver_postgresql import dbapi as adbc

from widetable_cdc.source.server_address import session_conninfo
from widetable_cdc.source.server_errors import refused_connection

Connection = psycopg.Connection[tuple[Any, ...]]
ArrowConnection = adbc_manager.Connection


def open_session(dsn: str, name: str) -> Connection:
    """Open a connection whose statements are transactions of their own (autocommit)."""
    conninfo = session_conninfo(dsn, name)
    try:
        return psycopg.connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        raise refused_connection(error, dsn) from None


@contextmanager
def session(dsn: str, name: str) -> Iterator[Connection]:
    """Open a connection and close it at the end."""
    connection = open_session(dsn, name)
    try:
        yield connection
    finally:
        connection.close()


def open_arrow_session(dsn: str, name: str, *, autocommit: bool = True) -> ArrowConnection:
    """Open a connection whose answers are Arrow. autocommit: false for one transaction until rollback or commit."""
    conninfo = session_conninfo(dsn, name)
    try:
        connection: ArrowConnection = adbc.connect(conninfo, autocommit=autocommit)
    except adbc_driver_manager.Error as error:
        raise refused_connection(error, dsn) from None
    return connection
