"""Which rows each batch of each taker has. A taker is one worker of one rank. Pure; raises nothing.

In: the rows of the pieces, and how batches are asked for. Out: the number of batches of a rank, and for each batch the
ranges of tracks (`epoch_order`) that its rows are.

    by taker     each taker has a track of its own, and cuts it into batches of `batch_rows`
    elastic      with `global_batch`: the tracks depend on the snapshot and the global batch alone, and each of them
                 fills its own slots of every batch; a rank takes a range of the slots

    global batch 8, 4 tracks       slots 0 1 | 2 3 | 4 5 | 6 7      rank 0 of 2: tracks 0 and 1; rank 1: tracks 2 and 3
    tracks                               0     1     2     3        4 ranks: one track each

So an elastic rank reads the pieces of its tracks only, as long as the number of ranks divides that of the tracks; with
more ranks, several of them read a track. Workers of a rank take turns batch by batch, and each reads all of the tracks.

Rows do not always divide. `even="drop"` leaves rows out, less than one for each taker or less than a global batch, and
`"repeat"` gives some rows of a track's beginning again: all ranks have as many batches, and takers as many rows. Batch
k of a rank is that of track k modulo W of its W workers. Behind n batches worker w gives n + w, n + w + W and so on,
because PyTorch's DataLoader asks worker 0 first, also when it goes on in the middle of an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from widetable.derive.loading.epoch_order import EpochOrder
from widetable.runtime.derived_value import derived_value

# A track has at least so many pieces, because a piece at its end is read for the next one again.
_PIECES_OF_A_TRACK: Final = 8


class Taker(NamedTuple):
    """A worker of a rank."""

    rank: int = 0
    world: int = 1
    worker: int = 0
    workers: int = 1


class TrackRows(NamedTuple):
    """Rows start : stop of a track."""

    track: int
    start: int
    stop: int


@dataclass(frozen=True)
class BatchPlan:
    """How batches are asked for. repeats: whether rows are repeated, not dropped. global_batch: None for batches by
    taker.
    """

    batch_rows: int
    seed: int | None
    shuffle_groups: int
    global_batch: int | None
    repeats: bool

    def schedule(self, piece_rows: tuple[int, ...], epoch: int, taker: Taker) -> BatchSchedule:
        """Return the batches of a taker in an epoch."""
        takers = taker.world * taker.workers
        if self.global_batch is None:
            tracks = max(1, min(takers, sum(piece_rows)))
            pool_pieces = self.shuffle_groups
        else:
            tracks = self._elastic_tracks(len(piece_rows))
            pool_pieces = max(1, self.shuffle_groups // tracks)
        order = EpochOrder(piece_rows, self.seed, epoch, tracks, pool_pieces)
        return BatchSchedule(self, order, taker)

    def _elastic_tracks(self, pieces: int) -> int:
        """Return the largest power of two that divides the global batch, and leaves each track enough pieces. One for
        rows that are not shuffled: global batches then are neighbours in the table.
        """
        assert self.global_batch is not None
        tracks = 1
        most = 1 if self.seed is None else min(self.shuffle_groups, pieces // _PIECES_OF_A_TRACK)
        while self.global_batch % (2 * tracks) == 0 and 2 * tracks <= most:
            tracks *= 2
        return tracks


@dataclass(frozen=True)
class BatchSchedule:
    """The batches of a taker in an epoch."""

    plan: BatchPlan
    order: EpochOrder
    taker: Taker

    @derived_value
    def batches(self) -> int:
        """The number of batches of the taker's rank; that of all other ranks is the same."""
        if self.plan.global_batch is None:
            return self.taker.workers * _over(self._taker_rows, self.plan.batch_rows)
        if self.plan.repeats:
            return _over(self.order.rows, self.plan.global_batch)
        return self.order.rows // self.plan.global_batch

    def own(self, given: int) -> range:
        """Return the batches of this worker when the rank has given so many."""
        return range(given + self.taker.worker, self.batches, self.taker.workers)

    def shares(self, batch: int) -> list[TrackRows]:
        """Return the rows of one batch of the rank."""
        if self.plan.global_batch is None:
            return self._shares_of_taker(*divmod(batch, self.taker.workers))
        return self._shares_of_rank(batch, self.plan.global_batch)

    @property
    def _taker_rows(self) -> int:
        takers = self.taker.world * self.taker.workers
        rows = self.order.rows
        return _over(rows, takers) if self.plan.repeats else rows // takers

    def _shares_of_taker(self, own: int, taker: int) -> list[TrackRows]:
        number = self.taker.rank * self.taker.workers + taker
        start = own * self.plan.batch_rows
        stop = min(start + self.plan.batch_rows, self._taker_rows)
        # There are fewer tracks than takers if there are fewer rows.
        return self._around(number % self.order.tracks, start, stop)

    def _shares_of_rank(self, batch: int, global_batch: int) -> list[TrackRows]:
        slots = global_batch // self.order.tracks
        rank, world = self.taker.rank, self.taker.world
        first, last = global_batch * rank // world, global_batch * (rank + 1) // world
        shares = []
        for track in range(self.order.tracks):
            low, high = max(first, track * slots), min(last, (track + 1) * slots)
            if low < high:
                at = batch * slots - track * slots
                shares += self._around(track, at + low, at + high)
        return shares

    def _around(self, track: int, start: int, stop: int) -> list[TrackRows]:
        """Return the rows start : stop of a track that begins again behind its end."""
        rows = self.order.track_rows(track)
        shares = []
        while start < stop:
            at = start % rows
            count = min(rows - at, stop - start)
            shares.append(TrackRows(track, at, at + count))
            start += count
        return shares


def _over(rows: int, size: int) -> int:
    """Return rows / size, rounded up."""
    return -(-rows // size)
