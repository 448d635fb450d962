"""Keeps the snapshots of a stream from expiry: by its consumer's progress, and by a read lease until there is progress.

    stream                              what holds its snapshots
    without a consumer                  the lease, moved from snapshot to snapshot
    with one, in its full phase         the lease, on the snapshot that is read as a whole; no progress is recorded
    with one, start yet to come         the lease, on the snapshot that it waits for
    with one, among changes             the consumer; the lease is released once the progress is recorded

A consumer is recorded as soon as the stream has started with changes; in a full phase only at its end, so that a
restart before repeats the phase. Where no consumer's progress keeps unread snapshots, the lease moves along; it is
renewed by itself, however long a batch takes. Raises NotFoundError when the snapshot to keep has expired,
InvalidError for an invalid consumer id and for a table that was dropped and created again meanwhile, DamagedError
for a consumer whose file is damaged, StorageError when progress cannot be recorded. A storage
that takes no lease is logged: the stream then reads what expiry leaves.
"""

from __future__ import annotations

import logging
from typing import Final

from widetable.commit.holds.read_lease import LONGEST_MILLIS, ReadLease, hold
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.errors import NotFoundError, StorageError
from widetable.messages.warning_code import WarningCode, warn
from widetable.read.expired import expired
from widetable.read.stream_plan import Offset
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")

# A killed reader keeps its snapshots for this long where the end of its process cannot be detected.
LEASE_MILLIS: Final = LONGEST_MILLIS


class StreamProgress:
    """The progress of one stream. It is not thread-safe, and must be closed.

    Making it costs one request, for the consumer's file; none without a consumer.
    """

    def __init__(
        self, table: TableState, consumer_id: str | None, clock: Clock | None = None
    ) -> None:
        self._table = table
        self._consumer_id = consumer_id
        self._consumers = ConsumerStore(table.file_io, table.paths)
        self._clock = clock or SystemClock()
        # The content of the consumer's file, as far as this stream knows; no one else should write under its name.
        self._recorded: int | None = None
        # The snapshot before it, where the file has it.
        self.last_read: str | None = None
        self._lease: ReadLease | None = None
        # False after `close` and once the storage has refused a lease: there is no further attempt.
        self._may_lease = True
        if consumer_id is not None:
            progress = self._consumers.progress(consumer_id)
            if progress is None:
                self._consumers.check_new(consumer_id)
            else:
                self._recorded, self.last_read = progress

    @property
    def next_snapshot(self) -> int | None:
        """The snapshot at which the consumer continues; None without progress."""
        return self._recorded

    def keep(self, offset: Offset) -> None:
        """Keep all unread snapshots, from this offset on. It is called often and writes only after a move."""
        if self._recorded is not None and self._recorded <= offset.next_snapshot:
            self._release()
        elif self._may_lease:
            try:
                self._hold(offset.next_snapshot)
            except StorageError as error:
                # An existing lease keeps more than is needed until it can be moved: at the next step, or when it is
                # renewed.
                self._may_lease = self._lease is not None
                how = "the read lease stays behind" if self._may_lease else "no read lease"
                what = "keeps more snapshots" if self._may_lease else "may overtake this stream"
                warn(_log, WarningCode.STREAM_NOT_HELD, "%s, so expiry %s: %s", how, what, error)

    def record(self, offset: Offset) -> None:
        """Record that all before the offset is done, so that the consumer continues there.

        It does nothing without a consumer, in its full phase, or while its start is yet to come: no progress was made
        then.
        """
        if self._consumer_id is None or offset.is_full or offset.awaited:
            return
        if self._recorded == offset.next_snapshot:
            return
        self._consumers.record(self._consumer_id, offset.next_snapshot, offset.last_read)
        self._recorded, self.last_read = offset.next_snapshot, offset.last_read

    def close(self) -> None:
        """Release the lease; the consumer stays. It may be called again."""
        self._release()
        self._may_lease = False

    def _hold(self, snapshot_id: int) -> None:
        """Take or move the lease to this snapshot.

        A lease that moves forward is overwritten in place, so at each moment it keeps the old snapshot or the new
        one. To move back, a new one is taken, which checks that the snapshot exists.
        """
        lease = self._lease
        # A lease that is not ours was inherited when this process was forked, and protects only the parent.
        if lease is None or not lease.is_ours or snapshot_id < lease.snapshot_id:
            self._release()
            try:
                file_io, paths = self._table.file_io, self._table.paths
                self._lease = hold(file_io, paths, snapshot_id, LEASE_MILLIS, self._clock)
            except NotFoundError as cause:
                raise expired(self._table, snapshot_id) from cause
        elif snapshot_id > lease.snapshot_id:
            lease.move(snapshot_id)

    def _release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()
