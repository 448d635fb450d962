"""Tracks cut the rows of an epoch into equal parts, and pools shuffle each of them."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from tests.widetable.derive.loading.loaded_rows import rows_of_track
from widetable.derive.loading.epoch_order import EpochOrder, PieceRows

PIECES = st.lists(st.integers(1, 9), min_size=1, max_size=12).map(tuple)


@given(PIECES, st.none() | st.integers(0, 5), st.integers(1, 6), st.integers(1, 4))
def test_tracks_hold_each_row_once_and_are_equal_to_a_row(
    piece_rows: tuple[int, ...], seed: int | None, tracks: int, pool_pieces: int
) -> None:
    order = EpochOrder(piece_rows, seed, 3, tracks, pool_pieces)
    rows = [rows_of_track(order, track) for track in range(tracks)]
    assert sorted(chain.from_iterable(rows)) == list(range(sum(piece_rows)))
    assert [len(each) for each in rows] == [order.track_rows(track) for track in range(tracks)]
    assert max(map(len, rows)) - min(map(len, rows)) <= 1
    for track in range(tracks):
        assert all(len(pool.parts) <= pool_pieces for pool in order.pools(track))


def test_without_a_seed_rows_keep_their_order() -> None:
    order = EpochOrder((3, 1, 4), None, 5, 2, 64)
    assert rows_of_track(order, 0) + rows_of_track(order, 1) == list(range(8))


def test_golden_epoch() -> None:
    """Computed by a program in C. The pieces of 3, 1 and 4 rows stay in order for this seed, the rows do not."""
    order = EpochOrder((3, 1, 4), 1, 0, 1, 64)
    assert order.pools(0)[0].parts == (PieceRows(0, 0, 3), PieceRows(1, 0, 1), PieceRows(2, 0, 4))
    assert rows_of_track(order, 0) == [0, 4, 3, 7, 6, 2, 5, 1]


def test_golden_tracks() -> None:
    """Computed by a program in C: the pieces of two rows in the order 0 3 1 2 4, and the pools of both tracks."""
    order = EpochOrder((2,) * 5, 2, 1, 2, 2)
    assert [part.piece for pool in order.pools(0) for part in pool.parts] == [0, 3, 1]
    assert [part.piece for pool in order.pools(1) for part in pool.parts] == [1, 2, 4]
    assert rows_of_track(order, 0) == [7, 0, 1, 6, 2]
    assert rows_of_track(order, 1) == [3, 5, 4, 9, 8]


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = {
        tuple(rows_of_track(EpochOrder((50,) * 4, seed, epoch, 1, 64), 0))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_a_row_may_come_anywhere() -> None:
    """Over many epochs the first row of the table has each place of the pool about as often: within six deviations."""
    epochs, rows = 2000, 10
    places = [0] * rows
    for epoch in range(epochs):
        places[rows_of_track(EpochOrder((5, 5), 9, epoch, 1, 64), 0).index(0)] += 1
    assert all(abs(count - epochs / rows) < 6 * (epochs / rows) ** 0.5 for count in places)
