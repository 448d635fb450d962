"""Reads the batches of a taker: pool by pool, of each track the one that it is at.

In: a schedule, the pieces, and how rows are formed. Out: batch after batch. Memory: one pool of each track that the
taker reads; pools that it needs no rows of are not read. Raises what `piece` and `column_form` raise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from widetable.derive.loading.batch_schedule import BatchSchedule, TrackRows
from widetable.derive.loading.epoch_order import EpochOrder, Pool
from widetable.derive.loading.piece import Piece, batches_of_piece
from widetable.derive.loading.pool_rows import Order, PoolRows, joined_rows

# Makes a pool of record batches and their order.
MakePool: TypeAlias = Callable[[Iterator[pa.RecordBatch], Order], PoolRows]


class TrackReader:
    """Reads rows of one track, in about ascending order: it keeps one pool."""

    def __init__(
        self,
        order: EpochOrder,
        track: int,
        pieces: Sequence[Piece],
        columns: Sequence[str],
        make_pool: MakePool,
        *,
        use_threads: bool,
    ) -> None:
        self._pools = order.pools(track)
        self._firsts = [pool.first for pool in self._pools]
        self._pieces = pieces
        self._columns = columns
        self._make_pool = make_pool
        self._use_threads = use_threads
        self._number = -1
        self._rows: PoolRows | None = None

    def parts(self, start: int, stop: int) -> Iterator[Any]:
        """Yield rows start : stop of the track, in parts that are each of one pool."""
        while start < stop:
            number = bisect_right(self._firsts, start) - 1
            pool = self._pools[number]
            end = min(stop, pool.first + pool.rows)
            yield self._read(number, pool).rows(start - pool.first, end - pool.first)
            start = end

    def _read(self, number: int, pool: Pool) -> PoolRows:
        if self._rows is None or number != self._number:
            self._rows = None  # released before the next one is read
            self._rows = self._make_pool(self._batches(pool), pool.order())
            self._number = number
        return self._rows

    def _batches(self, pool: Pool) -> Iterator[pa.RecordBatch]:
        for piece, start, stop in pool.parts:
            at = 0
            for batch in batches_of_piece(
                self._pieces[piece], self._columns, use_threads=self._use_threads
            ):
                low, high = max(start - at, 0), min(stop - at, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low)
                at += batch.num_rows


def taken_rows(
    schedule: BatchSchedule, given: int, reader_of: Callable[[int], TrackReader]
) -> Iterator[tuple[int, Any]]:
    """Yield the batches of this worker when the rank has given so many, each behind the number of batches from which
    the worker would go on after it.
    """
    readers: dict[int, TrackReader] = {}
    for batch in schedule.own(given):
        parts: list[Any] = []
        for share in schedule.shares(batch):
            parts += _reader(readers, share, reader_of).parts(share.start, share.stop)
        if parts:
            yield batch + schedule.taker.workers - schedule.taker.worker, joined_rows(parts)


def _reader(
    readers: dict[int, TrackReader], share: TrackRows, reader_of: Callable[[int], TrackReader]
) -> TrackReader:
    if share.track not in readers:
        readers[share.track] = reader_of(share.track)
    return readers[share.track]
