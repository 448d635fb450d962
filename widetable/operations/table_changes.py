"""What changed in a table: ranges of snapshots, and changes as they come. A base of `Table`.

Raises what the modules it calls raise; see there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from widetable.arguments import epoch_millis, seconds
from widetable.operations.changes import change_batches
from widetable.operations.follow import ChangeFollower
from widetable.operations.stream_progress import StreamProgress
from widetable.operations.supported import check_readable
from widetable.operations.table_upkeep import TableUpkeep
from widetable.read.change_source import ChangeSource
from widetable.read.stream_plan import start_of


class TableChanges(TableUpkeep):
    """Picklable; holds nothing open."""

    def changes(self, start: int, end: int, columns: Sequence[str] | None = None) -> pa.Table:
        """What the snapshots after `start` up to `end` changed: the columns, and `_row_kind` (+I, -U, +U, -D) last.

        In the order of snapshot, partition values, bucket, key and event, in today's columns (None: all). Tables with a
        changelog producer give their changelog, others the records of each append as they were written. `start` = `end`
        gives nothing. Raises NotFoundError, which says what is there, when snapshots of the range have expired or are
        yet to come.
        """
        source = self.change_source(columns)
        return pa.Table.from_batches(change_batches(source, start, end), source.arrow_schema)

    def change_batches(
        self, start: int, end: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As `changes`, batch by batch: for ranges that memory does not hold."""
        return change_batches(self.change_source(columns), start, end)

    def follow(
        self,
        consumer_id: str | None = None,
        scan_mode: str = "default",
        snapshot_id: int | None = None,
        timestamp: int | datetime | None = None,
        timeout: float | None = None,
        columns: Sequence[str] | None = None,
        poll_interval: float = 0.1,
    ) -> ChangeFollower:
        """Changes as they come: record batches of the columns (None: those of now) and `_row_kind`.

        scan_mode: `latest-full` (default: all rows as +I, then changes), `latest`, `from-snapshot` or
        `from-snapshot-full` with snapshot_id, `from-timestamp` with timestamp (epoch milliseconds or datetime).
        timeout: seconds without a new row after which the iteration ends; None: never; 0: it gives what is there now.
        poll_interval: seconds between looks for a new snapshot.

        consumer_id: a name under which progress is kept in the table. A follower with progress goes on there, whatever
        the mode, and expiry leaves what it has not read. A snapshot counts as read when the batch after its last one is
        asked for; so after a failure a snapshot may come again, whole, but none is lost. Without a name a lease keeps
        what is not read for as long as the follower lives.

        Each batch is of one snapshot; its schema's metadata has `widetable.snapshot-id`, `widetable.is-full` and, where
        there is one, `widetable.watermark`. Raises NotFoundError when what comes next has expired, InvalidError when
        the table is dropped and made again, or has lost what the consumer has read.
        """
        timestamp_millis = None if timestamp is None else epoch_millis(timestamp, "timestamp")
        start = start_of(scan_mode, snapshot_id, timestamp_millis)
        timeout_millis = None if timeout is None else seconds(timeout, "timeout") * 1000
        poll_millis = seconds(poll_interval, "poll_interval") * 1000
        source = self.change_source(columns)
        progress = StreamProgress(self._file_io, self._paths, consumer_id)
        return ChangeFollower(source, progress, start, timeout_millis, poll_millis)

    def change_source(self, columns: Sequence[str] | None = None) -> ChangeSource:
        """What streams of changes read from; its columns stay as they are now."""
        schema = self.schema
        check_readable(schema)
        committer = self._committer
        state, identity = self._state(schema), committer.identity
        return ChangeSource(state, committer.snapshots, committer.live_files, columns, identity)
