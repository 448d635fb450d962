"""`Table.follow_samples`: the samples of a table as they become ready, each once.

    table ── rounds of the feed ──► table of samples ── its changes, by a consumer ──► batches

A call for the next batch first yields what the samples already have, then brings them up to the newest snapshot of the
table. So a process that dies gets the batch again that it was working on, with the same rows and the same
`widetable.snapshot-id`, which is of the table of samples. Several consumers may follow the same samples.

Raises what sample_rule, sample_tables, the feed and followers of changes raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import pyarrow as pa

from widetable.arguments import seconds, text
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.derive.samples.label import SampleLabel
from widetable.derive.samples.sample_feed import feed_samples
from widetable.derive.samples.sample_rule import SampleArguments
from widetable.derive.samples.sample_tables import SampleTables, samples_of
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.follow import ChangeFollower, follow
from widetable.runtime.not_pickled import not_pickled

_Labels: TypeAlias = Mapping[str, SampleLabel] | None
_Share: TypeAlias = float | Mapping[str, float] | None


def follow_samples(
    table: OpenTable, consumer_id: str, complete: Sequence[str], *, on: str | None = None,
    wait: str | timedelta | None = None, eager: Sequence[str] = (), labels: _Labels = None,
    defaults: Mapping[str, Any] | None = None, late: str = "drop", negatives: _Share = None,
    seed: int = 0, columns: Sequence[str] | None = None, writers: Sequence[str] | None = None,
    event_times: Any = None, into: str | None = None, timeout: float | None = None,
    poll_interval: float = 0.1,
) -> SampleFollower:  # fmt: skip
    """Follow the rows of the table as they become samples of a training, each key once.

    A row is given when it is complete; with `wait` or `labels` when it is due, or before if `eager` is there.

    Parameters
    ----------
    consumer_id : str
        The name under which progress is stored.
    complete : list of str
        Columns without which a row is no sample. One with a default may be missing once the row is due.
    on : str, default None
        The column with the time of a sample, from which it waits.
    wait : str or timedelta, default None
        How long a sample waits, such as "30 min". Labels lengthen it to the longest of their times.
    eager : list of str, default ()
        Columns that end the wait once all of them are there, too.
    labels : dict of str to SampleLabel, default None
        Columns that are added, by `label`: whether an event came in time.
    defaults : dict, default None
        Values that stand for nulls, by column.
    late : str, default "drop"
        A change of a sample that was given is left out by "drop", and given with `_correction` by "correct".
    negatives : float or dict of str to float, default None
        The share to keep of samples whose `label`, or the column of the dict, is 0; `_weight` is 1 / share. None: all.
    seed : int, default 0
        Another seed keeps others.
    columns : list of str, default None
        The columns that samples have besides the key and labels. None: all of now.
    writers : list of str, default None
        The commit users whose watermarks a sample waits for. None: all that have committed one.
    event_times : dict of str to str, default None
        Units of columns of times that are numbers: `seconds`, `millis`, `micros` or `nanos`.
    into : str, default None
        `db.name` of the table that keeps the samples. None: the name of the table and `_samples`.
    timeout, poll_interval
        As in `follow`.

    Returns
    -------
    SampleFollower
        An iterator of record batches, each of what one snapshot gave.

    Raises
    ------
    InvalidError
        An argument does not fit, or `into` has other samples.
    NotFoundError
        There is no such column.
    """
    moments = (complete, on, wait, eager, labels, defaults, late)
    rule = SampleArguments(*moments, negatives, seed, columns, writers, event_times)
    return _followed(table, rule, into, consumer_id, timeout, poll_interval)


def _followed(
    table: OpenTable,
    given: SampleArguments,
    into: str | None,
    consumer_id: str,
    timeout: float | None,
    poll_interval: float,
) -> SampleFollower:
    end_millis = None if timeout is None else seconds(timeout, "timeout") * 1000
    poll_millis = seconds(poll_interval, "poll_interval") * 1000
    tables = samples_of(table, given, into)
    return SampleFollower(tables, text(consumer_id, "consumer_id"), end_millis, poll_millis)


class SampleFollower(Iterator[pa.RecordBatch]):
    """The samples of a table as they become ready: an iterator of record batches, and a context manager.

    `Table.follow_samples` makes it. A batch has the key and columns of the samples, labels, `_weight` if negative ones
    are dropped, `_snapshot`, `_correction` and `_row_kind`: +I for a sample, +U for its correction, -D for one that is
    taken back. Only one thread may use it.
    """

    __module__ = "widetable"
    __reduce_ex__ = not_pickled

    def __init__(
        self,
        tables: SampleTables,
        consumer_id: str,
        timeout_millis: float | None,
        poll_millis: float,
        clock: Clock | None = None,
    ) -> None:
        self._tables = tables
        self._consumer_id = consumer_id
        self._timeout_millis = timeout_millis
        self._poll_millis = poll_millis
        self._clock = clock or SystemClock()
        self._is_closed = False
        # The first one also checks the consumer, and keeps the samples that it has not read.
        self._ready = self._follower()

    @property
    def path(self) -> str:
        """The path of the table of the samples."""
        return self._tables.samples.path

    def __iter__(self) -> SampleFollower:
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch. The call says that the caller is done with the batches before."""
        if self._is_closed:
            raise StopIteration
        try:
            batch = self._next_batch()
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def _next_batch(self) -> pa.RecordBatch | None:
        """Wait for the next batch; return None after the timeout."""
        since_millis = self._clock.monotonic_millis()
        has_fed = False
        while True:
            batch = next(self._ready, None)
            if batch is not None:
                return batch
            is_fed = feed_samples(self._tables) is not None
            if is_fed or not has_fed:
                has_fed = True
                self._ready = self._follower()
                continue
            wait_millis = self._poll_millis
            if self._timeout_millis is not None:
                left_millis = since_millis + self._timeout_millis - self._clock.monotonic_millis()
                if left_millis <= 0:
                    return None
                wait_millis = min(wait_millis, left_millis)
            self._clock.sleep_millis(wait_millis)
            # Another process may feed the samples.
            has_fed = False

    def _follower(self) -> ChangeFollower:
        """Return what is there now. Progress is recorded when it has ended, as the caller then asked for more."""
        samples = self._tables.samples
        oldest = samples._committer.snapshots.earliest()
        mode = "from-snapshot" if oldest is None or oldest.id == 1 else "from-snapshot-full"
        first_id = 1 if oldest is None else oldest.id
        return follow(samples, self._consumer_id, mode, first_id, timeout=0)

    def close(self) -> None:
        """Stop following. The last batch comes again unless the caller has requested a batch after it."""
        self._is_closed = True
        self._ready.close()

    def __enter__(self) -> SampleFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
