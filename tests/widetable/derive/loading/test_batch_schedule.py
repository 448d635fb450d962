"""Each row comes once an epoch, whatever the number of ranks and workers, and wherever a training is resumed."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widetable.derive.loading.loaded_rows import batches_of_rank
from widetable.derive.loading.batch_schedule import BatchPlan, Taker

PIECES = st.lists(st.integers(1, 40), max_size=40).map(tuple)
SEEDS = st.none() | st.integers(0, 5)


@given(PIECES, SEEDS, st.integers(1, 5), st.integers(1, 3), st.integers(1, 20), st.data())
def test_rows_by_taker(
    piece_rows: tuple[int, ...],
    seed: int | None,
    world: int,
    workers: int,
    batch_rows: int,
    data: st.DataObject,
) -> None:
    repeats, groups = data.draw(st.booleans()), data.draw(st.integers(1, 8))
    plan = BatchPlan(batch_rows, seed, groups, None, repeats)
    ranks = [batches_of_rank(plan, piece_rows, 2, rank, world, workers) for rank in range(world)]
    assert len({tuple(map(len, batches)) for batches in ranks}) == 1
    assert all(1 <= len(batch) <= batch_rows for batches in ranks for batch in batches)
    counts = Counter(chain.from_iterable(chain.from_iterable(ranks)))
    rows, takers = sum(piece_rows), world * workers
    if repeats:
        assert sorted(counts) == list(range(rows))
        assert counts.total() < rows + takers
    else:
        assert set(counts.values()) <= {1}
        assert rows - takers < counts.total() <= rows
    first = data.draw(st.integers(0, len(ranks[0])))
    for rank in range(world):
        resumed = batches_of_rank(plan, piece_rows, 2, rank, world, workers, first)
        assert resumed == ranks[rank][first:]


@given(PIECES, SEEDS, st.integers(1, 64), st.data())
def test_global_batches_are_the_same_for_all_numbers_of_ranks_and_workers(
    piece_rows: tuple[int, ...], seed: int | None, global_batch: int, data: st.DataObject
) -> None:
    repeats, groups = data.draw(st.booleans()), data.draw(st.integers(1, 16))
    plan = BatchPlan(7, seed, groups, global_batch, repeats)
    expected = batches_of_rank(plan, piece_rows, 1, 0, 1, 1)
    assert {len(batch) for batch in expected} <= {global_batch}
    counts = Counter(chain.from_iterable(expected))
    rows = sum(piece_rows)
    if repeats:
        assert sorted(counts) == list(range(rows))
        assert counts.total() < rows + global_batch
    else:
        assert set(counts.values()) <= {1}
        assert rows - global_batch < counts.total() <= rows
    for _ in range(2):
        world = data.draw(st.integers(1, min(global_batch, 9)))
        workers = data.draw(st.integers(1, 4))
        first = data.draw(st.integers(0, len(expected)))
        ranks = [
            batches_of_rank(plan, piece_rows, 1, rank, world, workers, first)
            for rank in range(world)
        ]
        for rank, batches in enumerate(ranks):
            low, high = global_batch * rank // world, global_batch * (rank + 1) // world
            assert batches == [batch[low:high] for batch in expected[first:]]


@pytest.mark.parametrize("pieces", [64, 640])
@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_elastic_ranks_read_pieces_of_their_own(world: int, pieces: int) -> None:
    """Each rank reads its part: all together read an eighth of the pieces twice, at most."""
    plan = BatchPlan(1, 1, 64, 1024, False)
    read: Counter[int] = Counter()
    for rank in range(world):
        piece_rows = tuple(900 + 7 * (number % 13) for number in range(pieces))
        schedule = plan.schedule(piece_rows, 0, Taker(rank, world))
        tracks = {share.track for share in schedule.shares(0)}
        assert len(tracks) == schedule.order.tracks // world
        parts = [part for t in tracks for pool in schedule.order.pools(t) for part in pool.parts]
        read.update(part.piece for part in parts)
    assert set(read) == set(range(pieces))
    assert read.total() <= pieces * 9 / 8


@pytest.mark.parametrize("groups", [1, 2, 30, 64, 100])
@pytest.mark.parametrize("pieces", [1, 50, 640])
@pytest.mark.parametrize("global_batch", [96, 1000, 1024])
def test_memory_is_that_of_the_shuffle_groups(global_batch: int, pieces: int, groups: int) -> None:
    """A pool of each track: not more pieces together than are shuffled together."""
    plan = BatchPlan(1, 3, groups, global_batch, False)
    order = plan.schedule((1000,) * pieces, 0, Taker()).order
    assert order.tracks * order.pool_pieces <= groups


def test_fewer_rows_than_takers() -> None:
    for repeats, batches in ((False, []), (True, [[0], [1], [2], [0], [1]])):
        plan = BatchPlan(8, None, 4, None, repeats)
        ranks = [batches_of_rank(plan, (1, 2), 0, rank, 5, 1) for rank in range(5)]
        assert list(chain.from_iterable(ranks)) == batches
