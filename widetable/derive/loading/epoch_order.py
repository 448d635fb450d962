"""The order in which an epoch gives the rows of a snapshot. Pure; raises nothing.

In: how many rows each piece of the snapshot has, a seed and an epoch. Out: tracks, which cut the rows into equal parts,
and the pools of a track: rows that are read and shuffled together.

    pieces, in the order that seed and epoch draw      [  3  ][ 0 ][   4   ][  1  ][   2   ]
    tracks, equal to a row                             |  track 0   |  track 1   |  track 2 |
    pools of track 0, of one piece each                [  3  ][ 0 ][4]

A piece lies in two tracks where a track ends within it. Its rows are in the order of files or keys, and a track has a
range of them. Each pool is shuffled by a key of (seed, epoch, tracks, track, pool). Without a seed, pieces and rows
keep their order, and a pool is one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from widetable.derive.loading.drawn_order import drawn_order, key_of
from widetable.runtime.derived_value import derived_value

# The first number of a key: what the key is for.
_PIECES, _ROWS = 0, 1


class PieceRows(NamedTuple):
    """Rows start : stop of a piece."""

    piece: int
    start: int
    stop: int


class Pool(NamedTuple):
    """Rows that are read together. first: the place in the track of its first row. key: of its order; None: as read."""

    first: int
    rows: int
    parts: tuple[PieceRows, ...]
    key: int | None

    def order(self) -> npt.NDArray[np.intp] | None:
        """Return the order of its rows; None for that in which they are read."""
        return None if self.key is None else drawn_order(self.key, self.rows)


@dataclass(frozen=True)
class EpochOrder:
    """The order of one epoch. piece_rows: of each piece, none 0. pool_pieces: how many pieces a pool has."""

    piece_rows: tuple[int, ...]
    seed: int | None
    epoch: int
    tracks: int
    pool_pieces: int

    @property
    def rows(self) -> int:
        """The rows of the snapshot."""
        return sum(self.piece_rows)

    def track_rows(self, track: int) -> int:
        """Return how many rows a track has: two tracks differ by one at most."""
        start, stop = self._bounds(track)
        return stop - start

    def pools(self, track: int) -> list[Pool]:
        """Return the pools of a track, in order."""
        parts = self._parts(*self._bounds(track))
        size = 1 if self.seed is None else self.pool_pieces
        pools: list[Pool] = []
        first = 0
        for number, at in enumerate(range(0, len(parts), size)):
            chosen = tuple(parts[at : at + size])
            rows = sum(part.stop - part.start for part in chosen)
            pools.append(Pool(first, rows, chosen, self._key(track, number)))
            first += rows
        return pools

    def _key(self, track: int, pool: int) -> int | None:
        if self.seed is None:
            return None
        return key_of(_ROWS, self.seed, self.epoch, self.tracks, track, pool)

    def _bounds(self, track: int) -> tuple[int, int]:
        rows = self.rows
        return rows * track // self.tracks, rows * (track + 1) // self.tracks

    @derived_value
    def _order(self) -> list[int]:
        count = len(self.piece_rows)
        if self.seed is None:
            return list(range(count))
        return [int(piece) for piece in drawn_order(key_of(_PIECES, self.seed, self.epoch), count)]

    @derived_value
    def _ends(self) -> Sequence[int]:
        """The place behind the last row of each piece, in the drawn order; a zero first."""
        return [0, *np.cumsum([self.piece_rows[piece] for piece in self._order]).tolist()]

    def _parts(self, start: int, stop: int) -> list[PieceRows]:
        """Return the parts of pieces that cover the rows start : stop of the drawn order."""
        parts = []
        for piece, (low, high) in zip(self._order, pairwise(self._ends), strict=True):
            if low < stop and start < high:
                parts.append(PieceRows(piece, max(start, low) - low, min(stop, high) - low))
        return parts
