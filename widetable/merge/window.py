"""The rows of a key range from all runs, in merge order, ready for an engine to plan on.

A row's number counts through the pieces in the order given: oldest run first, and within a run in key order. A window
may leave rows out (a layer of a commit): `order` then holds fewer rows than the pieces do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.merge_order import group_starts, merge_order, sort_order
from widetable.kernels.run_cut import first_disorder
from widetable.merge.key_order import KeyOrder, Lanes, arrival_keys
from widetable.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema


@dataclass(frozen=True)
class Contested:
    """The keys of a window that have several rows. keys int64[c]: their numbers; rows int64[m]: their rows in merge
    order; starts int64[c + 1]: where each key's rows start in `rows`.
    """

    keys: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """pieces: row batches. order int64[m]: row numbers by key, `sequence.field`s, arrival, retraction before add.

    starts int64[g + 1]: where each key's rows start in `order`.
    kinds int8[n], sequence_numbers int64[n]: by row number.
    """

    schema: TableSchema
    pieces: tuple[pa.RecordBatch, ...]
    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    sequence_numbers: npt.NDArray[np.int64]
    _joined: dict[str, pa.Array] = field(default_factory=dict, repr=False)
    _tables: dict[tuple[bool, ...], npt.NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @cached_property
    def last_rows(self) -> npt.NDArray[np.int64]:
        """int64[g]: the last row of each key."""
        return self.order[self.starts[1:] - 1]

    @cached_property
    def contested(self) -> Contested:
        sizes = np.diff(self.starts)
        several = sizes > 1
        keys = np.flatnonzero(several)
        starts = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(sizes[keys], out=starts[1:])
        return Contested(keys, self.order[np.repeat(several, sizes)], starts)

    @property
    def has_single_rows_only(self) -> bool:
        return len(self.starts) - 1 == len(self.order)

    @cached_property
    def _names(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(piece.schema.names) for piece in self.pieces)

    def presence(self, name: str) -> tuple[bool, ...]:
        """Which pieces hold the column."""
        return tuple(name in names for names in self._names)

    def column(self, name: str) -> pa.Array:
        """The column over the pieces that hold it, end to end. `positions` tells where a row's value is."""
        joined = self._joined.get(name)
        if joined is None:
            pairs = zip(self.pieces, self.presence(name), strict=True)
            chunks = [piece.column(name) for piece, present in pairs if present]
            joined = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
            self._joined[name] = joined
        return joined

    def positions(
        self, presence: tuple[bool, ...], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Where the values of these rows are in a column with that presence; -1 for -1 and where it is missing."""
        if all(presence):
            return rows
        table = self._tables.get(presence)
        if table is None:
            table = self._tables[presence] = self._position_table(presence)
        return table[rows]

    def _position_table(self, presence: tuple[bool, ...]) -> npt.NDArray[np.int64]:
        """By row number; the last item answers for row -1."""
        table = np.full(sum(piece.num_rows for piece in self.pieces) + 1, -1, np.int64)
        row = position = 0
        for piece, present in zip(self.pieces, presence, strict=True):
            if present:
                table[row : row + piece.num_rows] = np.arange(position, position + piece.num_rows)
                position += piece.num_rows
            row += piece.num_rows
        return table

    def layer(self, chosen: npt.NDArray[np.bool_]) -> Window:
        """The window of the positions in `order` that are chosen: bool[m]. Keys without any are left out."""
        counts = np.add.reduceat(chosen, self.starts[:-1], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(counts[counts > 0])])
        return replace(self, order=self.order[chosen], starts=starts)


def window_of_runs(
    key_order: KeyOrder,
    pieces: Sequence[pa.RecordBatch],
    run_offsets: npt.NDArray[np.int64],
    lanes: Lanes,
) -> Window:
    """A window of sorted runs. run_offsets: the rows where runs start, and n; lanes: of the keys of all rows."""
    return _window(key_order, pieces, lanes, run_offsets)


def window_of_arrivals(key_order: KeyOrder, batches: Sequence[pa.RecordBatch]) -> Window:
    """A window of row batches in any order of keys."""
    return _window(key_order, batches, key_order.key_lanes(batches), None)


def _window(
    key_order: KeyOrder,
    pieces: Sequence[pa.RecordBatch],
    key_lanes: Lanes,
    run_offsets: npt.NDArray[np.int64] | None,
) -> Window:
    kinds = _end_to_end(pieces, VALUE_KIND, np.dtype(np.int8))
    sequence_numbers = _end_to_end(pieces, SEQUENCE_NUMBER, np.dtype(np.int64))
    arrivals = arrival_keys(sequence_numbers, kinds)
    sequence = key_order.sequence_lanes(pieces)
    lanes = key_lanes if sequence is None else np.concatenate([key_lanes, sequence], axis=1)
    # A spilled run may hold a key several times, in the order of arrival instead of `sequence.field`.
    if run_offsets is None or (sequence is not None and first_disorder(lanes, run_offsets) >= 0):
        order = sort_order(lanes, arrivals)
    else:
        order = merge_order(lanes, arrivals, run_offsets)
    starts = group_starts(key_lanes, order)
    return Window(key_order.schema, tuple(pieces), order, starts, kinds, sequence_numbers)


def _end_to_end(
    pieces: Sequence[pa.RecordBatch], name: str, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    return np.concatenate([fixed_values(piece.column(name), dtype) for piece in pieces])
