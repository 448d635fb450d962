"""The rows that a plan of batches gives, as numbers: row n of the pieces laid end to end."""

from __future__ import annotations

from itertools import accumulate, chain, zip_longest

from widetable.derive.loading.batch_schedule import BatchPlan, BatchSchedule, Taker
from widetable.derive.loading.epoch_order import EpochOrder


def rows_of_track(order: EpochOrder, track: int) -> list[int]:
    """The rows of a track, in the order in which it gives them."""
    starts = [0, *accumulate(order.piece_rows)]
    rows: list[int] = []
    for pool in order.pools(track):
        assert pool.first == len(rows)
        read = [
            starts[part.piece] + row for part in pool.parts for row in range(part.start, part.stop)
        ]
        assert len(read) == pool.rows
        drawn = pool.order()
        rows += read if drawn is None else [read[place] for place in drawn.tolist()]
    return rows


def rows_of_batch(schedule: BatchSchedule, batch: int) -> list[int]:
    """The rows of a batch of the taker."""
    rows = []
    for share in schedule.shares(batch):
        rows += rows_of_track(schedule.order, share.track)[share.start : share.stop]
    return rows


def batches_of_rank(
    plan: BatchPlan,
    piece_rows: tuple[int, ...],
    epoch: int,
    rank: int,
    world: int,
    workers: int,
    first: int = 0,
) -> list[list[int]]:
    """The batches of a rank from one on, as a DataLoader takes them: from worker 0, worker 1 and so on, in turn."""
    takers = [Taker(rank, world, worker, workers) for worker in range(workers)]
    schedules = [plan.schedule(piece_rows, epoch, taker) for taker in takers]
    batches = [
        [rows_of_batch(schedule, batch) for batch in schedule.own(first)] for schedule in schedules
    ]
    turns = chain.from_iterable(zip_longest(*batches))
    return [batch for batch in turns if batch is not None]
