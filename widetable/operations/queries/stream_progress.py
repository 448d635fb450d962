"""What keeps the snapshots of a stream from expiry: its consumer's progress, and until there is some a read lease.

    stream                              what holds its snapshots
    without a consumer                  the lease, moved from snapshot to snapshot
    with one, in its full phase         the lease, on the snapshot that is read as a whole; no progress is recorded
    with one, start yet to come         the lease, on the snapshot that it waits for
    with one, among changes             the consumer; the lease is let go once the progress is recorded

A consumer is recorded as soon as the stream has started with changes; in a full phase only when that is over, so that a
restart before does it again. Where no consumer's progress keeps what is still to be read, the lease moves along; it is
renewed by itself, however long a batch takes. Raises NotFoundError when the snapshot that is to be held has expired,
InvalidError for a consumer id that is no name and for a table that was dropped and made again meanwhile, DamagedError
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

# A reader that is killed keeps its snapshots for so long, where nobody sees that its process has ended.
LEASE_MILLIS: Final = LONGEST_MILLIS


class StreamProgress:
    """Of one stream. Not thread-safe. Close it.
    Made with one request, of the consumer's file; none without a consumer.
    """

    def __init__(
        self, table: TableState, consumer_id: str | None, clock: Clock | None = None
    ) -> None:
        self._table = table
        self._consumer_id = consumer_id
        self._consumers = ConsumerStore(table.file_io, table.paths)
        self._clock = clock or SystemClock()
        # What the consumer's file says, as far as this stream knows; nobody else should write under its name.
        self._recorded: int | None = None
        # Which snapshot is before it, where the file says so.
        self.last_read: str | None = None
        self._lease: ReadLease | None = None
        # False once the storage has refused to give one, and after `close`: no further try is made.
        self._may_lease = True
        if consumer_id is not None:
            found = self._consumers.progress(consumer_id)
            if found is None:
                self._consumers.check_new(consumer_id)
            else:
                self._recorded, self.last_read = found

    @property
    def next_snapshot(self) -> int | None:
        """Where the consumer goes on; None without progress."""
        return self._recorded

    def keep(self, offset: Offset) -> None:
        """All from here on is still to be read. Called often: it writes only when the offset has moved."""
        if self._recorded is not None and self._recorded <= offset.next_snapshot:
            self._release()
        elif self._may_lease:
            try:
                self._hold(offset.next_snapshot)
            except StorageError as error:
                # One that is there holds more than is needed until it can be moved: at the next step, or when renewed.
                self._may_lease = self._lease is not None
                how = "the read lease stays behind" if self._may_lease else "no read lease"
                what = "keeps more snapshots" if self._may_lease else "may overtake this stream"
                warn(_log, WarningCode.STREAM_NOT_HELD, "%s, so expiry %s: %s", how, what, error)

    def record(self, offset: Offset) -> None:
        """All before is done with: let the consumer go on from here. Nothing without one, in its full phase, or while
        its start is yet to come: that would be progress that nobody made.
        """
        if self._consumer_id is None or offset.is_full or offset.awaited:
            return
        if self._recorded == offset.next_snapshot:
            return
        self._consumers.record(self._consumer_id, offset.next_snapshot, offset.last_read)
        self._recorded, self.last_read = offset.next_snapshot, offset.last_read

    def close(self) -> None:
        """Let go of the lease; the consumer stays. May be called again."""
        self._release()
        self._may_lease = False

    def _hold(self, snapshot_id: int) -> None:
        """Have the lease on this snapshot. One that moves forward is written over in place, so at
        each moment it holds the old snapshot or the new one; one that must go back is taken anew,
        which looks whether the snapshot is there.
        """
        lease = self._lease
        # One that is not ours was inherited by this process when it was forked: the parent's holds for the parent.
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
