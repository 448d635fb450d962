"""`Table.follow`: the changes of a table as they come, batch by batch.

In: where to start (stream_plan), a consumer, how long to wait. Out: an iterator of record batches, each of one
snapshot: the columns and `_row_kind`, with metadata in the batch's schema:

    widetable.snapshot-id      the snapshot
    widetable.is-full          true: a row of the snapshot; false: one of its changes
    widetable.watermark        the snapshot's watermark, epoch milliseconds; missing if it has none

A request for the next batch says that the batches before are done, and only those are recorded.
Two snapshots, the first in two batches, read by a consumer `c` from snapshot 1 on:

    the batch that `next` gives     1, first part   1, rest   2   (the end)
    progress of `c` by then                     1         1   2           3

So a process that dies while it handles a batch gets the whole snapshot of that batch again, and none is lost.

Order: snapshot, partition values, bucket, key, event. A table that is dropped, or dropped and created again, ends the
follower with an error. Raises what stream_plan and change_source raise.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from widetable.arguments import seconds
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.errors import NotFoundError
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.changes import change_source
from widetable.operations.queries.stream_progress import StreamProgress
from widetable.read.change_source import ChangeSource
from widetable.read.expired import expired
from widetable.read.stream_plan import (
    FROM_TIMESTAMP,
    LATEST_FULL,
    Kept,
    Offset,
    Piece,
    Start,
    Step,
    after,
    check_step,
    first_offset,
    start_of,
)
from widetable.runtime.moment import Moment, epoch_millis
from widetable.runtime.not_pickled import not_pickled

SNAPSHOT_ID_KEY: Final = "widetable.snapshot-id"
IS_FULL_KEY: Final = "widetable.is-full"
WATERMARK_KEY: Final = "widetable.watermark"
# How often the newest snapshot may expire before the lease on it is taken.
_TRIES: Final = 10


def follow(
    table: OpenTable,
    consumer_id: str | None = None,
    scan_mode: str = "default",
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    timeout: float | None = None,
    columns: Sequence[str] | None = None,
    poll_interval: float = 0.1,
) -> ChangeFollower:
    """Follow the changes of the table as they come.

    A follower with a `consumer_id` stores its progress in the table: it continues from there, whatever the mode, and
    expiry keeps what it has not read. A snapshot counts as read when the batch after its last one is requested, so
    after a failure a whole snapshot may come again. Without an id, a lease keeps unread snapshots meanwhile.

    Parameters
    ----------
    consumer_id : str, default None
        The name under which progress is stored. None: no progress is stored.
    scan_mode : str, default "default"
        Where to start without progress: `latest-full` (the default: all rows as +I, then changes), `latest`,
        `from-snapshot` or `from-snapshot-full` with `snapshot_id`, `from-timestamp` with `timestamp`.
    snapshot_id : int, default None
        The snapshot to start from.
    timestamp : int, datetime or str, default None
        The time to start from: epoch milliseconds, a datetime or an ISO text.
    timeout : float, default None
        Seconds without a new row after which the iteration ends. 0: with the current newest snapshot. None: never.
    columns : list of str, default None
        The columns, in the order wanted. None: all current ones.
    poll_interval : float, default 0.1
        Seconds between two checks for a new snapshot.

    Returns
    -------
    ChangeFollower
        An iterator of record batches, each of one snapshot: the columns, then `_row_kind`.

    Raises
    ------
    NotFoundError
        There is no such column, or the next snapshot has expired, which may also happen during the iteration.
    InvalidError
        An argument does not fit. During the iteration: the table was created again, lost snapshots or was rolled back.
    UnsupportedError
        The table has an option that changes its rows and that this version does not honour.

    Examples
    --------
    >>> [batch.num_rows for batch in users.follow("mail", timeout=0)]
    [2]
    """
    timestamp_millis = None if timestamp is None else epoch_millis(timestamp, "timestamp")
    start = start_of(scan_mode, snapshot_id, timestamp_millis)
    return follower_of(change_source(table, columns), consumer_id, start, timeout, poll_interval)


def follower_of(
    source: ChangeSource,
    consumer_id: str | None,
    start: Start,
    timeout: float | None,
    poll_interval: float,
) -> ChangeFollower:
    """Return a follower of a source; the other arguments are those of `follow`."""
    timeout_millis = None if timeout is None else seconds(timeout, "timeout") * 1000
    poll_millis = seconds(poll_interval, "poll_interval") * 1000
    progress = StreamProgress(source.table, consumer_id)
    return ChangeFollower(source, progress, start, timeout_millis, poll_millis)


class ChangeFollower(Iterator[pa.RecordBatch]):
    """The changes of a table as they come: an iterator of record batches, and a context manager.

    `Table.follow` makes it. It is closed at its end, after an error, by `close`, by `with`, and when it is
    garbage-collected. A follower that has ended yields no further batch: make a new one.

    Each batch belongs to one snapshot. The metadata of its schema has `widetable.snapshot-id`, `widetable.is-full`
    and, if the snapshot has one, `widetable.watermark`.

    Only one thread may use it. Between two batches a read lease or its consumer keeps the snapshots, however
    long the caller takes; no file is open between two snapshots.

    Examples
    --------
    >>> import widetable as wt
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}]).snapshot_id
    1
    >>> with users.follow(timeout=0) as follower:
    ...     [batch.num_rows for batch in follower]
    [1]
    """

    __module__ = "widetable"
    __reduce_ex__ = not_pickled

    def __init__(
        self,
        source: ChangeSource,
        progress: StreamProgress,
        start: Start,
        timeout_millis: float | None,
        poll_millis: float,
        clock: Clock | None = None,
    ) -> None:
        self._source = source
        self._progress = progress
        self._timeout_millis = timeout_millis
        self._poll_millis = poll_millis
        self._clock = clock or SystemClock()
        self._close = weakref.finalize(self, progress.close)
        # `_batches` yields the snapshot at `_reading`; when it has ended, all before `_offset` was yielded.
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._offset = self._reading = start_stream(source, progress, start)
        # With timeout 0 the end is fixed here: later commits cannot keep the follower from ending.
        self._last = source.looked_for_id() if timeout_millis == 0 else None

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of all batches, without the metadata."""
        return self._source.arrow_schema

    def __iter__(self) -> ChangeFollower:
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch. The call says that the caller is done with the batches before."""
        if not self._close.alive:
            raise StopIteration
        try:
            batch = self._next_batch()
        except BaseException:
            # A retry would skip the rest of the snapshot.
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def close(self) -> None:
        """Stop following.

        The next follower of the consumer gets the last snapshot again unless the caller has requested a batch after it.
        """
        self._close()

    def __enter__(self) -> ChangeFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_batch(self) -> pa.RecordBatch | None:
        """Wait for the next batch; return None after the timeout."""
        since_millis = self._clock.monotonic_millis()
        while True:
            # Each time, not only between snapshots: a process that was forked meanwhile needs its own lease.
            self._progress.keep(self._reading)
            batch = next(self._batches, None)
            if batch is not None:
                return batch
            if self._next_step():
                continue
            wait_millis = self._poll_millis
            if self._timeout_millis is not None:
                left_millis = since_millis + self._timeout_millis - self._clock.monotonic_millis()
                if left_millis <= 0:
                    return None
                wait_millis = min(wait_millis, left_millis)
            self._clock.sleep_millis(wait_millis)

    def _next_step(self) -> bool:
        """Record that all batches so far are read, and go to the next snapshot. Return False when there is none yet."""
        # The newest id first: if the table is created again after it, the next line raises, and no
        # id of the old table is taken for one of the new table.
        newest = self._source.looked_for_id()
        self._source.check_alive()  # before anything is recorded in the table
        self._source.check(self._offset, newest)
        self._progress.record(self._offset)
        self._reading = self._offset
        last = self._last if self._timeout_millis == 0 else newest
        if last is None or self._offset.next_snapshot > last:
            return False
        # Before its manifest lists are read, because from here on it may not expire.
        self._progress.keep(self._reading)
        step = self._source.step(self._offset.next_snapshot, self._offset.is_full)
        check_step(step)
        self._batches = self._of_step(step)
        self._offset = after(step, self._offset)
        return True

    def _of_step(self, step: Step) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a step with their metadata, read on demand; a snapshot without rows has none."""
        metadata = {
            SNAPSHOT_ID_KEY: str(step.snapshot_id),
            IS_FULL_KEY: "true" if step.is_full else "false",
        }
        if step.watermark is not None:
            metadata[WATERMARK_KEY] = str(step.watermark)
        for batch in self._source.batches(Piece(step, 0, len(step.splits)), metadata):
            if batch.num_rows:
                yield batch


def start_stream(
    source: ChangeSource, progress: StreamProgress, start: Start, newest: int | None = None
) -> Offset:
    """Return where a new stream starts, and keep that snapshot from expiry.

    Parameters
    ----------
    source : ChangeSource
        The changes.
    progress : StreamProgress
        The progress, which keeps the snapshot.
    start : Start
        The chosen start.
    newest : int, default None
        Ignore later snapshots (0: all). None: ignore none.

    Returns
    -------
    Offset
        The first offset.

    Raises
    ------
    NotFoundError
        The start has expired. Only `latest-full` chooses another start, because it names no snapshot.
    """
    for attempt in range(_TRIES):
        at_time = None
        if start.mode == FROM_TIMESTAMP and start.timestamp_millis is not None:
            at_time = source.first_at(start.timestamp_millis)
        snapshots = source.kept()
        if progress.next_snapshot is not None:
            # Before anything is recorded: a consumer ahead of a table that lost snapshots would skip new ones.
            recorded = Offset(progress.next_snapshot, last_read=progress.last_read)
            source.check(recorded, snapshots.last)
        if newest is not None and snapshots.last is not None:
            snapshots = Kept(snapshots.first, min(snapshots.last, newest) or None)
        chosen = first_offset(start, snapshots, progress.next_snapshot, at_time)
        offset = replace(
            chosen, table=source.identity, last_read=_last_read(source, progress, chosen)
        )
        try:
            if snapshots.first is not None and offset.next_snapshot < snapshots.first:
                raise expired(source.table, offset.next_snapshot)
            progress.record(offset)
            progress.keep(offset)
        except NotFoundError:
            if start.mode != LATEST_FULL or attempt == _TRIES - 1:
                raise
        else:
            return offset
    raise AssertionError("the last try returns or raises")


def _last_read(source: ChangeSource, progress: StreamProgress, chosen: Offset) -> str | None:
    """Return the mark of the snapshot before a start: the one that the consumer has read, else the current one."""
    if progress.next_snapshot is not None and progress.last_read is not None:
        return progress.last_read
    return None if chosen.awaited else source.mark(chosen.next_snapshot - 1)
