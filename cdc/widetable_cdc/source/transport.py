"""How the log reaches a job: `changes` brings whole transactions again and again until `confirm`.

    confirmed ──► [ transaction ][ transaction ] ... server_lsn
                  changes(after, n) ─► LogPart ─► committed to the targets ─► confirm(end LSN of the last one)

A `LogPart` is what `COPY (SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes(...)) TO STDOUT (FORMAT
binary)` gives: transactions in the order of their commits, never a part of one. Where the log has nothing for the
publication, the part has no rows, and `confirm(part.server_lsn)` lets the slot follow the log.

Measured (PostgreSQL 18.6): a peek decodes from the slot's restart position and sends the transactions whose commit lies
behind the slot's confirmed position, so nothing that was confirmed comes again, and a transaction that was open when
another was confirmed comes whole when it commits. A limit counts messages (Begin, Commit and Relation among them) and
ends a peek at the end of a transaction. Each peek sends its Relation messages anew.

Raises InvalidError when another session reads the slot or has moved it, or when it is lost, and StorageError when the
server does not answer.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from widetable import InvalidError
from widetable_cdc.source.arrow_stream import arrow_stream
from widetable_cdc.source.lsn import lsn_text
from widetable_cdc.source.server_checks import lost_slot
from widetable_cdc.source.session import open_arrow_session, open_session
from widetable_cdc.source.slot import LOST, Slot, SlotStatus, no_slot
from widetable_cdc.source.spilled_bytes import SpilledBytes
from widetable_cdc.source.sql_name import literal

COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER: Final = b"\xff\xff"
# Each row is a tuple of COPY's binary format (3 fields: 8 bytes, 4 bytes, the message), put together by the server and
# read by ADBC: psycopg takes 4 microseconds for each row of a COPY, ADBC 0.4 (the same bytes, measured). The statement
# has no parameters: with them ADBC takes the whole answer into memory before its first batch.
_PEEK: Final = r"""
SELECT '\x000300000008'::bytea || pg_lsn_send(lsn) || '\x00000004'::bytea || xidsend(xid)
       || int4send(length(data)) || data
FROM pg_logical_slot_peek_binary_changes({slot}, {upto}, {changes}, VARIADIC
     ARRAY['proto_version', '1', 'publication_names', {publication}])
"""


@dataclass(frozen=True)
class LogPart:
    """Bytes of the log in COPY's binary format. server_lsn: up to where the log was flushed before it was read, or
    where it was to stop: with no row in the bytes nothing of the publication was committed up to there.
    """

    data: bytes | mmap.mmap
    server_lsn: int

    @property
    def is_empty(self) -> bool:
        return len(self.data) == len(COPY_HEADER) + len(COPY_TRAILER)


class Transport(Protocol):
    """A source of changes. One process uses it."""

    def changes(self, after_lsn: int, max_changes: int, upto_lsn: int | None = None) -> LogPart:
        """Return transactions that were committed behind `after_lsn`, in their order, perhaps with earlier ones before
        them. max_changes: stop at the end of the transaction that reaches it. upto_lsn: where one ends, to stop there.
        """

    def confirm(self, lsn: int) -> None:
        """Let the server forget what was committed up to `lsn`. A later `changes` does not return it."""


class PeekTransport:
    """Reads a slot by SQL, in sessions of its own. It has the slot to itself until `close`.

    dsn, name: as in `open_session`. publication: its changes are sent. wait_seconds: for another job to end.
    """

    def __init__(
        self, dsn: str, name: str, slot: str, publication: str, wait_seconds: float = 10.0
    ) -> None:
        self._connection = open_session(dsn, name)
        self._pid = self._connection.info.backend_pid
        self._publication = publication
        self._slot = Slot(self._connection, slot)
        self._subject = f"the log by the replication slot {slot!r}"
        self._confirmed: int | None = None
        try:
            self._slot.reserve(wait_seconds)
            self._arrow = open_arrow_session(dsn, name)
        except BaseException:
            self._connection.close()
            raise

    def changes(self, after_lsn: int, max_changes: int, upto_lsn: int | None = None) -> LogPart:
        """See `Transport.changes`. Raises InvalidError if the slot was moved beyond what this job confirmed."""
        status = self._checked_status(after_lsn)
        data = SpilledBytes()
        data.write(COPY_HEADER)
        peek = _PEEK.format(
            slot=literal(self._slot.name),
            upto="NULL" if upto_lsn is None else f"'{lsn_text(upto_lsn)}'",
            changes=max_changes,
            publication=literal(self._publication),
        )
        with self._arrow.cursor() as cursor:
            stream = arrow_stream(self._arrow, cursor, peek, self._subject)
            for batch in stream.batches:
                data.write(_bytes_of(batch.column(0)))
        data.write(COPY_TRAILER)
        flushed = status.server_lsn
        return LogPart(data.whole(), flushed if upto_lsn is None else min(flushed, upto_lsn))

    def confirm(self, lsn: int) -> None:
        """Let the server forget what was committed up to `lsn`, as `Transport.confirm` says."""
        self._confirmed = self._slot.advance(lsn)

    def status(self) -> SlotStatus:
        """Return the slot's standing."""
        status = self._slot.status()
        if status is None:
            raise no_slot(self._slot.name)
        return status

    @property
    def pids(self) -> set[int]:
        """The processes of the server that serve the sessions."""
        return {self._pid, self._arrow.pid}

    def close(self) -> None:
        """Close the sessions, which frees the slot."""
        self._arrow.close()
        self._connection.close()

    def _checked_status(self, after_lsn: int) -> SlotStatus:
        status = self.status()
        confirmed = status.confirmed_lsn
        if status.wal_status == LOST or confirmed is None:
            raise lost_slot(status)
        if self._confirmed is None:
            self._confirmed = confirmed
        if confirmed > max(self._confirmed, after_lsn):
            raise InvalidError(
                f"the replication slot {self._slot.name!r}",
                found=f"a slot that was moved to {lsn_text(confirmed)}",
                expected=f"one that is at most at {lsn_text(max(self._confirmed, after_lsn))}",
                action="Find who else reads the slot, and copy the tables again: changes were taken from it.",
            )
        return status


def _bytes_of(values: pa.Array) -> memoryview:
    """Return the bytes of all values, one after another, without a copy."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return memoryview(b"")
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[values.offset] : ends[values.offset + len(values)]]
