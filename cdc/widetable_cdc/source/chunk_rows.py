"""Rows of a key range with the snapshot that they were read in.

    BEGIN REPEATABLE READ ─► LOCK TABLE ─► snapshot, position ─► log on disk up to there ─► rows ─► ROLLBACK

The lock comes first and takes no snapshot: a rewriting ALTER that commits between a snapshot and the read of the rows
would leave the read empty, without an error. The snapshot also sees transactions that did not wait for the disk
(`synchronous_commit = off`). A crash of the server would undo them and give their numbers to others, so the log is
brought to disk before a row is used. A table, expressions and a range go in. Record batches come out, in no
order, from a transaction that lives no longer than the `with` block. A server in recovery is refused: its snapshots
list no running transactions.

Raises InvalidError (server in recovery), ConflictError (the table was altered or made anew since its catalog entry was
read, or is being altered), NotFoundError (it is gone) and StorageError (the server does not answer). A batch that is
not read yet can raise as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import adbc_driver_manager
import psycopg
import pyarrow as pa

from widetable import ConflictError, InvalidError
from widetable.connector import counted
from widetable_cdc.source.arrow_stream import BATCH_BYTES, arrow_stream
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.lsn import lsn_of
from widetable_cdc.source.server_errors import LOCK_TIMEOUT, server_error, server_errors
from widetable_cdc.source.session import ArrowConnection, open_arrow_session, session
from widetable_cdc.source.source_snapshot import SourceSnapshot
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.sql_name import qualified

# The snapshot exists before the row is computed, so the position is not before it.
_STANDING: Final = """
SELECT pg_current_snapshot()::text AS snapshot,
       (CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END)::text AS lsn,
       (CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn() END)::text AS flushed,
       (extract(epoch FROM statement_timestamp()) * 1000000)::int8 AS micros,
       (SELECT array_to_string(array_agg(attnum || ' ' || attname ORDER BY attnum), ', ')
        FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped) AS columns,
       (SELECT oid::int8 FROM pg_class WHERE oid = to_regclass($1::text)) AS oid
"""
# The commit of an own transaction brings all of the log before it to disk.
_FLUSH: Final = """
SET synchronous_commit = local;
SELECT pg_logical_emit_message(true, 'widetable', '')
"""


@dataclass(frozen=True)
class ChunkRead:
    """A chunk while it is read. snapshot: what its rows show. lsn: a position behind all that the snapshot sees.
    schema: of the batches. batches: the rows, once. micros: the server's time at the snapshot, since 1970.
    """

    snapshot: SourceSnapshot
    lsn: int
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    micros: int = 0


@contextmanager
def read_chunk(
    dsn: str,
    name: str,
    table: SourceTable,
    select: Sequence[str],
    key_range: ChunkRange,
    batch_bytes: int = BATCH_BYTES,
    lock_seconds: float = 10.0,
) -> Iterator[ChunkRead]:
    """Read the expressions `select` of the rows of `table` whose keys lie in the range. dsn, name: as in
    `open_session`. batch_bytes: about as large is a batch. lock_seconds: how long to wait for a transaction that
    alters or truncates the table.
    """
    subject = f"the table {table.schema}.{table.name}"
    connection = open_arrow_session(dsn, name, autocommit=False)
    try:
        _begin(connection, table, subject, lock_seconds)
        snapshot, lsn, flushed, micros = _standing(connection, table, subject)
        if flushed < lsn:
            _flush(dsn, name)
        statement = (
            f"SELECT {', '.join(select)} FROM {qualified(table.schema, table.name)} "
            f"WHERE {key_range.predicate}"
        )
        # The reader ends with its cursor.
        with connection.cursor() as cursor:
            stream = arrow_stream(connection, cursor, statement, subject, batch_bytes=batch_bytes)
            yield ChunkRead(snapshot, lsn, stream.schema, stream.batches, micros)
    finally:
        connection.close()


def _begin(
    connection: ArrowConnection, table: SourceTable, subject: str, lock_seconds: float
) -> None:
    timeout = max(1, round(lock_seconds * 1000))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(f"SET LOCAL lock_timeout = {timeout}")
            cursor.execute(f"LOCK TABLE {qualified(table.schema, table.name)} IN ACCESS SHARE MODE")
    except (adbc_driver_manager.Error, psycopg.Error) as error:
        if error.sqlstate != LOCK_TIMEOUT:
            raise server_error(error, subject) from None
        raise ConflictError(
            subject,
            found=f"a transaction that has altered, truncated or locked it for {lock_seconds:g} s",
            expected="a table that can be read",
            action="Read the chunk later, with the catalog as it is then.",
        ) from None


def _standing(
    connection: ArrowConnection, table: SourceTable, subject: str
) -> tuple[SourceSnapshot, int, int, int]:
    """Take the snapshot and compare the table with its catalog entry. Raises as the module says.

    Returns the snapshot, a position behind all that it sees, up to where the log was on disk, and the time.
    """
    with server_errors(subject), connection.cursor() as cursor:
        cursor.execute(_STANDING.format(oid=table.oid), [qualified(table.schema, table.name)])
        (row,) = cursor.table().to_pylist()
    if row["lsn"] is None:
        raise refused_in_recovery(subject)
    columns = ", ".join(f"{column.attnum} {column.name}" for column in table.columns)
    if row["oid"] != table.oid or row["columns"] != columns:
        count = counted(len(table.columns), "column")
        raise ConflictError(
            subject,
            found=f"another table than its catalog entry, which has {count}",
            expected="the table as it was when its catalog entry was read",
            action="Read the catalog again, and read the chunk by the new entry.",
        )
    snapshot = SourceSnapshot.parse(row["snapshot"])
    return snapshot, lsn_of(row["lsn"]), lsn_of(row["flushed"]), row["micros"]


def _flush(dsn: str, name: str) -> None:
    with session(dsn, name) as connection, server_errors("the log of the source"):
        for statement in _FLUSH.split(";"):
            connection.execute(statement)


def refused_in_recovery(subject: str) -> InvalidError:
    """Return the error for rows that a standby would have to give."""
    return InvalidError(
        subject,
        found="a server in recovery (a standby), whose snapshots list no running transactions",
        expected="the primary server for the rows of the copy",
        action="Let the dsn name the primary, with target_session_attrs=read-write if it has several hosts.",
    )
