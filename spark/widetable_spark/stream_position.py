"""Where a streaming read is, and what its next batch holds: the driver's side, without Spark.

In: offsets as Spark keeps them (JSON dicts). Out: offsets, and what each task reads. All splits of one bucket go to one
task, in order, unless they cannot share a key; small ones share a task. Raises NotFoundError when a snapshot that is
still to be read has expired, InvalidError for a checkpoint of another table or one past what is there, and what
widetable.read.change_source raises.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from widetable import Table
from widetable.connector import (
    Limits,
    Offset,
    StreamProgress,
    StreamRead,
    advance,
    offset_from_json,
    pieces_between,
    start_stream,
)
from widetable_spark.source_options import StreamOptions

LOOK_SECONDS: Final = 0.1
# So many snapshots without rows are passed by a batch without rows: else nothing is done for them.
_EMPTY_SNAPSHOTS: Final = 32
# A task costs Spark some 30 ms: it gets this many bytes of files, where opening one counts as much as reading 4 MiB.
_TASK_BYTES: Final = 32 << 20
_OPENING_BYTES: Final = 4 << 20


class StreamPosition:
    """Of one query. Not thread-safe. Close it."""

    def __init__(self, table: Table, options: StreamOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._source = table.change_source(columns)
        state = self._source.table
        self._progress = StreamProgress(state.file_io, state.paths, options.consumer_id)
        self._initial: Offset | None = None
        self._target: int | None = None
        self._bound: int | None = None
        self._reached: Mapping[str, Any] | None = None
        self._last: int | None = None
        self._looked_at = float("-inf")
        self._newest: tuple[int, dict[str, Any]] | None = None
        self._found: tuple[tuple[Offset, int | None, Limits], Offset] | None = None

    def initial(self) -> dict[str, Any]:
        """Where a query without a checkpoint starts. Spark asks twice; the answer stays."""
        if self._initial is None:
            bound = self._bound if self._target is None else self._target
            self._initial = start_stream(self._source, self._progress, self._options.start, bound)
        self._reached = self._reached or self._initial.to_json()
        return self._initial.to_json()

    def stop_at_newest(self) -> None:
        """Take the newest snapshot of now as the last one that there will be."""
        self._target = self._source.latest_id() or 0

    def next_end(self, start: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """Where the batch ends that begins at `start`; `start` when there is nothing to be read."""
        newest = self._newest_id()
        offset = self._checked(start, newest)
        self._progress.keep(offset)
        key = (offset, newest, limits)
        if self._found is None or self._found[0] != key:
            end, splits = advance(offset, self._source.step, key[1], limits)
            if not splits and end.next_snapshot - offset.next_snapshot < _EMPTY_SNAPSHOTS:
                end = offset
            self._found = key, end
        # An offset of an older version stays as it is until there is something to read.
        return dict(start) if self._found[1] == offset else self._found[1].to_json()

    def unguided_end(self) -> dict[str, Any]:
        """Where the next batch ends, when Spark does not say where it begins: known here but for the first batch, whose
        end is asked for before its start. That start is not after this end.
        """
        if self._reached is not None:
            return self.next_end(self._reached, Limits())
        self._bound = self._newest_id() or 0
        return self.newest() or self.initial()

    def newest(self) -> dict[str, Any] | None:
        """The offset behind the newest snapshot, None for a table without one."""
        last = self._newest_id()
        if last and (self._newest is None or self._newest[0] != last):
            self._newest = last, self._source.end(last).to_json()
        return None if not last or self._newest is None else self._newest[1]

    def tasks(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[StreamRead, ...]]:
        """What the tasks of a batch read."""
        self._source.check_alive()
        newest = self._source.latest_id()
        first, last = self._checked(start, newest), self._checked(end, newest)
        self._progress.keep(first)
        self._reached = end
        found = pieces_between(first, last, self._source.step)
        groups: dict[Any, list[StreamRead]] = {}
        reads = [read for piece in found for read in self._source.reads(piece)]
        for number, read in enumerate(reads):
            # Splits of one step are disjoint in keys; changes of a key in several steps must stay in order.
            bucket = read.split.bucket if len(found) > 1 else number
            groups.setdefault(bucket, []).append(read)
        return packed(list(groups.values()))

    def record(self, end: Mapping[str, Any]) -> None:
        """All before `end` is done with."""
        self._source.check_alive()
        self._progress.record(offset_from_json(end))

    def close(self) -> None:
        """Let go of what keeps snapshots from expiry, but for the consumer."""
        self._progress.close()

    def _checked(self, body: Mapping[str, Any], newest: int | None) -> Offset:
        """An offset of this table, whichever version wrote it."""
        offset = offset_from_json(body)
        self._source.check(offset, newest)
        return replace(offset, table=self._source.identity)

    def _newest_id(self) -> int | None:
        if self._target is not None:
            return self._target
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._last, self._looked_at = self._source.latest_id(), now
            self._source.check_alive()
        return self._last


def packed(groups: Sequence[Sequence[StreamRead]]) -> list[tuple[StreamRead, ...]]:
    """The groups in order, several to a task while they are small."""
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
