"""The chunks of one table, in the order of their ranges: which one a key lies in, and which to read next. Pure.

    low ends     -inf        5000        9000
    chunks       0           2           1            a chunk that is split keeps its number below the cut
    keys         17 ─► 0     5000 ─► 1   12000 ─► 2   places in that order

Ranges of the states must hold every key exactly once. Raises InvalidError if they do not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import InvalidError
from widetable_cdc.copying.chunk_states import ChunkState, ChunkStatus
from widetable_cdc.source.chunk_range import ChunkRange, numbers_of
from widetable_cdc.source.source_snapshot import SourceSnapshot


class ChunkPlan:
    """The chunks of a table. states: in the order of their ranges."""

    def __init__(self, states: Iterable[ChunkState]) -> None:
        self.states = tuple(
            sorted(
                states,
                key=lambda state: (state.key_range.low is not None, state.key_range.low or 0),
            )
        )
        _check(self.states)
        self._lows = np.array([each.key_range.low for each in self.states[1:]], np.int64)

    @classmethod
    def planned(cls, relation: int, ranges: Iterable[ChunkRange]) -> ChunkPlan:
        """Return the plan of a table that is not copied yet, with the chunks 0, 1, ... of these ranges."""
        return cls(ChunkState(relation, chunk, each) for chunk, each in enumerate(ranges))

    @property
    def key_column(self) -> str | None:
        """The column that `places_of` wants; None if the table is one chunk."""
        first = self.states[0].key_range
        return None if first.kind is None else first.column

    def places_of(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return for each of n keys the place in `states` of the chunk that holds it."""
        kind = self.states[0].key_range.kind
        if kind is None or len(self.states) == 1:
            return np.zeros(len(keys), np.int64)
        places: npt.NDArray[np.int64] = np.searchsorted(self._lows, numbers_of(keys, kind), "right")
        return places

    def to_read(self, count: int | None = None) -> tuple[ChunkState, ...]:
        """Return the next chunks to read, `count` at most, in the order of their keys."""
        waiting = [each for each in self.states if each.status is ChunkStatus.PLANNED]
        return tuple(waiting[:count])

    def copied(self, chunk: int, snapshot: SourceSnapshot, lsn: int) -> ChunkPlan:
        """Return the plan after the rows of a chunk are in the target."""
        return ChunkPlan(
            each.copied(snapshot, lsn) if each.chunk == chunk else each for each in self.states
        )

    def again(self) -> ChunkPlan:
        """Return the plan in which all chunks are to be read again."""
        return ChunkPlan(each.planned() for each in self.states)

    def split(self, chunk: int, bounds: Iterable[int]) -> ChunkPlan:
        """Return the plan with a planned chunk cut at `bounds`, ascending, within its range. The lowest part keeps the
        number, the others get new ones.
        """
        state = next(each for each in self.states if each.chunk == chunk)
        key_range = state.key_range
        cuts = list(bounds)
        if state.status is not ChunkStatus.PLANNED or key_range.kind is None:
            raise _broken(f"chunk {chunk}, which is copied or a whole table", "a planned range")
        ends = [key_range.low, *cuts, key_range.high]
        number = max(each.chunk for each in self.states) + 1
        numbers = [chunk, *range(number, number + len(cuts))]
        parts = [
            ChunkState(
                state.relation, each, ChunkRange(key_range.column, key_range.kind, low, high)
            )
            for each, low, high in zip(numbers, ends[:-1], ends[1:], strict=True)
        ]
        return ChunkPlan([*(each for each in self.states if each.chunk != chunk), *parts])

    @property
    def is_copied(self) -> bool:
        """Whether all rows are in the target."""
        return not self.to_read(1)

    def streams(self, position: int) -> bool:
        """Return whether the states can be dropped: all is copied, and every change up to `position` is applied, which
        lies behind all that the snapshots see. No later change is in any of them.
        """
        return all(each.lsn is not None and each.lsn <= position for each in self.states)


def _check(states: tuple[ChunkState, ...]) -> None:
    if not states:
        raise _broken("no chunk", "at least one")
    kinds = {(each.relation, each.key_range.column, each.key_range.kind) for each in states}
    if len(kinds) > 1 or len({each.chunk for each in states}) < len(states):
        raise _broken("chunks of several tables or keys, or one number twice", "those of one table")
    lows = [each.key_range.low for each in states]
    highs = [each.key_range.high for each in states]
    if lows[0] is not None or highs[-1] is not None or highs[:-1] != lows[1:] or None in lows[1:]:
        raise _broken(f"ranges from {lows} to {highs}", "ranges that hold every key once")
    inner = [each for each in lows if each is not None]
    if any(low >= high for low, high in itertools.pairwise(inner)):
        raise _broken(f"bounds {inner}", "ascending bounds")


def _broken(found: str, expected: str) -> InvalidError:
    return InvalidError(
        "the chunks of a table",
        found=found,
        expected=expected,
        action="Plan the chunks of the table anew, and copy it again.",
    )
