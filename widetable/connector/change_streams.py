"""Streams the changes of a table to an engine in batches: the driver's side. Tasks read what it gives them.

In: offsets as the engine keeps them (JSON dicts). Out: offsets, and what each task reads. All splits of one bucket go
to one task, in order, unless they cannot share a key; small ones share a task. Raises NotFoundError when a snapshot
that is still to be read has expired, InvalidError for a checkpoint of another table or one past the newest snapshot,
and what widetable.read.change_source raises.

In the life of a query the engine asks (Spark: spark.md section 4):

    first run        initial(), initial(), next_end(initial), tasks(initial, end), next_end(end), ..
    a later run      next_end(offset of the checkpoint), ..; tasks(start, end) first where a batch was not finished
    each batch       record(end of the one before), when the next one is planned

A batch follows from its two offsets alone, whatever is committed in between. An engine that does not say where a batch
begins (Spark before 4.2) asks `unguided_end` in place of next_end: it begins where the last call of `tasks` has ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.changes import change_source
from widetable.operations.queries.follow import start_stream
from widetable.operations.queries.stream_progress import StreamProgress
from widetable.read.change_read import StreamRead
from widetable.read.change_source import ChangeSource
from widetable.read.stream_plan import (
    Limits,
    Offset,
    Start,
    advance,
    offset_from_json,
    pieces_between,
)

# Spark asks some 95 times a second; the newest snapshot is looked up at most once in this time.
POLL_SECONDS: Final = 0.1
# A batch without rows skips this many snapshots without rows; fewer cause no batch.
_EMPTY_SNAPSHOTS: Final = 32
# A task costs Spark some 30 ms: it gets this many bytes of files; opening a file counts as much as reading 4 MiB.
_TASK_BYTES: Final = 32 << 20
_OPENING_BYTES: Final = 4 << 20


class ChangeStream(Protocol):
    """A stream of changes, in the driver of an engine. One thread uses it; close it.

    Offsets are JSON objects, which the engine keeps in its checkpoint. A later version reads those of an earlier one.
    """

    def initial(self) -> dict[str, Any]:
        """Return where a stream without a checkpoint starts; the answer stays.

        Returns
        -------
        dict of str to object
            The offset.

        Raises
        ------
        NotFoundError
            The chosen start has expired.
        """

    def stop_at_newest(self) -> None:
        """End the stream with what the table has now."""

    def next_end(self, start: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """Return where the batch ends that begins at an offset.

        Parameters
        ----------
        start : dict of str to object
            The offset at which the batch begins.
        limits : Limits
            What the batch may hold. A barrier stream ignores it: its batch lies between two barriers.

        Returns
        -------
        dict of str to object
            The offset; `start` when there is nothing to be read.

        Raises
        ------
        InvalidError
            The offset is none of this table.
        NotFoundError
            The next snapshot has expired.
        """

    def unguided_end(self) -> dict[str, Any]:
        """Return where the next batch ends, for an engine that does not say where it begins.

        Returns
        -------
        dict of str to object
            The offset.

        Raises
        ------
        UnsupportedError
            It is a barrier stream, whose plans are stored by where a batch begins.
        """

    def newest(self) -> dict[str, Any] | None:
        """Return the end of what the table has, for a display of progress.

        Returns
        -------
        dict of str to object or None
            The offset; None where nothing is to be shown.
        """

    def tasks(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[StreamRead, ...]]:
        """Return what the tasks of a batch read, the same for each replay.

        Parameters
        ----------
        start, end : dict of str to object
            The offsets of the batch.

        Returns
        -------
        list of tuple of StreamRead
            The picklable reads of each task, which it reads in this order.

        Raises
        ------
        InvalidError
            An offset is none of this table.
        NotFoundError
            A snapshot has expired.
        """

    def record(self, end: Mapping[str, Any]) -> None:
        """Record that all before an offset is done, so that it may expire.

        Parameters
        ----------
        end : dict of str to object
            The offset.
        """

    def close(self) -> None:
        """Release what the stream keeps from expiry; the progress of a consumer stays."""


class StreamPosition:
    """The position of one query. It is not thread-safe.

    Close it: until then its lease protects unread snapshots from expiry, where no consumer does.

    _target: the last snapshot of a query that ends by itself. _bound: the newest one when Spark asked for the end of
    the first batch before its start, which must not be after it. _reached: where the next batch begins, for a Spark
    that does not say so. _last, _polled_at: the newest snapshot and when it was looked for. _newest: the offset after a
    snapshot; _planned: the last answer of `next_end`, with its inputs. Both are asked for again and again.
    """

    def __init__(self, source: ChangeSource, start: Start, consumer_id: str | None) -> None:
        self._start = start
        self._source = source
        self._progress = StreamProgress(self._source.table, consumer_id)
        self._initial: Offset | None = None
        self._target: int | None = None
        self._bound: int | None = None
        self._reached: Mapping[str, Any] | None = None
        self._last: int | None = None
        self._polled_at = float("-inf")
        self._newest: tuple[int, dict[str, Any]] | None = None
        self._planned: tuple[tuple[Offset, int | None, Limits], Offset] | None = None

    def initial(self) -> dict[str, Any]:
        """Return where a query without a checkpoint starts. Spark asks twice; the answer stays."""
        if self._initial is None:
            bound = self._bound if self._target is None else self._target
            self._initial = start_stream(self._source, self._progress, self._start, bound)
        self._reached = self._reached or self._initial.to_json()
        return self._initial.to_json()

    def stop_at_newest(self) -> None:
        """Take the newest snapshot of now as the last one of the query.

        A trigger that ends by itself asks for it; 0, for a table without snapshots, makes the query end at once.
        """
        self._target = self._source.looked_for_id() or 0

    def next_end(self, start: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """Return where the batch ends that begins at `start`; `start` when there is nothing to be read.

        Snapshots without rows for the stream, such as compactions where it reads appends, are skipped only together
        with rows or when there are 32 of them: an end that differs from the start makes Spark run a batch, and log it.
        """
        newest = self._newest_id()
        offset = self._checked(start, newest)
        self._progress.keep(offset)
        key = (offset, newest, limits)
        if self._planned is None or self._planned[0] != key:
            end, splits = advance(offset, self._source.step, key[1], limits)
            if not splits and end.next_snapshot - offset.next_snapshot < _EMPTY_SNAPSHOTS:
                end = offset
            self._planned = key, end
        # An offset of an older version is kept until there is something to read.
        return dict(start) if self._planned[1] == offset else self._planned[1].to_json()

    def unguided_end(self) -> dict[str, Any]:
        """Return where the next batch ends, when Spark does not say where it begins.

        The start is stored here except for the first batch, whose end is asked for before its start; that start is not
        after this end.
        """
        if self._reached is not None:
            return self.next_end(self._reached, Limits())
        self._bound = self._newest_id() or 0
        return self.newest() or self.initial()

    def newest(self) -> dict[str, Any] | None:
        """Return the offset after the newest snapshot, None for a table without one."""
        last = self._newest_id()
        if last and (self._newest is None or self._newest[0] != last):
            self._newest = last, self._source.end(last).to_json()
        return None if not last or self._newest is None else self._newest[1]

    def tasks(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[StreamRead, ...]]:
        """Return what the tasks of a batch read: a tuple for each task, to be read in its order.

        With several steps, the reads of one bucket stay together and in order, or a later change of a key might be seen
        before an earlier one. With a single step each split may have a task of its own.
        """
        self._source.check_alive()
        newest = self._source.latest_id()
        first, last = self._checked(start, newest), self._checked(end, newest)
        self._progress.keep(first)
        self._reached = end
        pieces = pieces_between(first, last, self._source.step)
        groups: dict[Any, list[StreamRead]] = {}
        reads = [read for piece in pieces for read in self._source.reads(piece)]
        for number, read in enumerate(reads):
            # Splits of one step are disjoint in keys; changes of a key in several steps must stay in order.
            bucket = read.split.bucket if len(pieces) > 1 else number
            groups.setdefault(bucket, []).append(read)
        return packed(list(groups.values()))

    def record(self, end: Mapping[str, Any]) -> None:
        """Record that all rows before `end` are done: the consumer moves there, and older files may expire.

        Without a consumer only the checkpoint stores the progress.
        """
        self._source.check_alive()
        self._progress.record(offset_from_json(end))

    def close(self) -> None:
        """Release the lease that protects snapshots from expiry; the consumer stays."""
        self._progress.close()

    def _checked(self, body: Mapping[str, Any], newest: int | None) -> Offset:
        """Return an offset of this table, whichever version wrote it."""
        offset = offset_from_json(body)
        self._source.check(offset, newest)
        return replace(offset, table=self._source.identity)

    def _newest_id(self) -> int | None:
        """Return the last snapshot that may be read; None for a table without one.

        It looks at the table every 100 ms at most, and then also checks that it is still the same table.
        """
        if self._target is not None:
            return self._target
        now = time.monotonic()
        if now - self._polled_at >= POLL_SECONDS:
            self._last = self._source.looked_for_id()
            self._polled_at = time.monotonic()
            self._source.check_alive()
        return self._last


def change_stream(
    table: OpenTable, columns: Sequence[str], start: Start, consumer_id: str | None = None
) -> ChangeStream:
    """Open a stream of the changes of a table.

    Parameters
    ----------
    table : OpenTable
        The table.
    columns : list of str
        The columns, in the order wanted.
    start : Start
        Where a stream without a checkpoint starts, as `start_of` returns it.
    consumer_id : str, default None
        The name under which the table keeps the progress. None: only the checkpoint has it.

    Returns
    -------
    ChangeStream
        The stream; close it.

    Raises
    ------
    NotFoundError
        There is no such column.
    InvalidError
        The name is not valid for a consumer.
    """
    return StreamPosition(change_source(table, columns), start, consumer_id)


def packed(groups: Sequence[Sequence[StreamRead]]) -> list[tuple[StreamRead, ...]]:
    """Pack the groups into tasks, in order, several to a task while they are small.

        MiB of files      a: 2 + 2     b: 10     c: 12     d: 100     e: 1
        with opening      12           14        16        104        5
        tasks of 32       a, b | c | d | e

    A group that is larger than a task has one to itself, and the next group begins another: no earlier task is filled
    up. So there are at most as many tasks as groups, and their order is that of the groups.
    """
    tasks: list[list[StreamRead]] = []
    room = 0
    for group in groups:
        size = sum(file.file_size + _OPENING_BYTES for read in group for file in read.split.files)
        if not tasks or size > room:
            tasks.append([])
            room = _TASK_BYTES
        tasks[-1] += group
        room -= size
    return [tuple(task) for task in tasks]
