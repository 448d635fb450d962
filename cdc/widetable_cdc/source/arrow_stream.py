"""The batches of a statement that ADBC carries out.

A cursor and a statement go in, an iterator of record batches comes out, which lives as long as the cursor. What the
server refuses is raised as errors of this package, at the start and from within the stream. A failure within it has no
SQLSTATE (Arrow's stream interface has no place for it), so the connection is asked whether it still answers: if it does
the statement is at fault (InvalidError), else the connection is (StorageError).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import adbc_driver_manager
import psycopg
import pyarrow as pa
from adbc_driver_postgresql import StatementOptions

from widetable import InvalidError, StorageError, WidetableError
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import ArrowConnection, ArrowCursor

BATCH_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class ArrowStream:
    """What a statement answers. batches: once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def arrow_stream(
    connection: ArrowConnection,
    cursor: ArrowCursor,
    statement: str,
    subject: str,
    batch_bytes: int = BATCH_BYTES,
) -> ArrowStream:
    """Run a statement. cursor: of the connection, open until the last batch. subject: what errors are about.
    batch_bytes: about as large is a batch.
    """
    with server_errors(subject):
        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)}
        cursor.statement.set_options(**hint)
        cursor.execute(statement)
        reader = cursor.reader()
    return ArrowStream(reader.schema, _batches(cursor, reader, connection, subject))


def _batches(
    cursor: ArrowCursor, reader: pa.RecordBatchReader, connection: ArrowConnection, subject: str
) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = cursor.next_batch(reader)
        except StopIteration:
            return
        except (OSError, pa.ArrowException, psycopg.Error) as error:
            raise _failure(error, connection, subject) from None
        yield batch


def _failure(error: Exception, connection: ArrowConnection, subject: str) -> WidetableError:
    said = str(error).splitlines()[0]
    if _answers(connection):
        return InvalidError(
            subject,
            found=said,
            expected="a statement that the server carries out to its end",
            action="Correct what the server names, and start the job again.",
        )
    return StorageError(
        subject,
        found=said,
        expected="a connection that lasts until the last row",
        action="Start the job again when the server answers; it goes on where it was.",
    )


def _answers(connection: ArrowConnection) -> bool:
    try:
        if not connection.autocommit:
            connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.table().num_rows)
    except (adbc_driver_manager.Error, psycopg.Error, OSError):
        return False
