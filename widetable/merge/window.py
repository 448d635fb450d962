"""The rows of a key range from all runs, in merge order, ready for an engine to plan on.

Row numbers count through the pieces in their order: oldest run first, and within a run in key order. A window
may leave rows out (a layer of a commit): `order` then holds fewer rows than the pieces do.

    piece 0: a c d    piece 1: b c    piece 2: a c          row numbers 0 1 2 | 3 4 | 5 6
    key      a     b   c       d
    order    0 5   3   1 4 6   2          the rows of a key side by side, oldest first; nothing is copied
    starts   0     2   3       6   7      where each key begins in it

Engines decide on `order` and `starts` alone; a column is read once, when the winning rows are gathered.

Layout of a column: most rows of a merge are from one run, the base, so a column is stored as its
largest piece and the others joined behind it; nothing of the base is copied. Here pieces 0 and 2
have the column, with 2 and 4 rows; piece 1, of 3 rows, does not:

    row number   0 1   2 3 4   5 6 7 8     -1
    position     4 5   · · ·   0 1 2 3      ·        large: piece 2; rest: piece 0; · is -1, null
    shift        +4    none    -5          none      one number for each piece, and one for row -1

The cost of a window depends on the columns of its pieces, not on those of the table: a column that
no piece holds is not among `names`, and a layout is as large as the number of pieces.

Texts of all pieces may exceed the 2 GiB that 32-bit offsets reach, even if those that are
gathered do not: such a column is joined with 64-bit offsets (`kernels.wide_offsets`).

Threads: a thread that gathers the rows and one that makes their changelog share a window.
All values but the caches of columns and layouts are fixed. When a cache is empty, or a column was
forgotten, both threads may compute an equal value; neither ever sees an incomplete one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.row_batch import in_schema_order
from widetable.kernels.array_types import Lanes
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.merge_order import merge_order
from widetable.kernels.patched_take import PatchChoice, take_patched
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.kernels.wide_offsets import joinable
from widetable.merge.key_order import arrival_keys, lanes_of_keys, lanes_of_sequence
from widetable.merge.printed_key import printed_key
from widetable.runtime.derived_value import derived_value
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

Value = TypeVar("Value", bound=np.generic)

# The shift of a piece that lacks a column: plus any row number it is negative.
_NONE: Final = -(1 << 62)
_SYSTEM_NAMES: Final = (SEQUENCE_NUMBER, VALUE_KIND)


@dataclass(frozen=True)
class SomeKeys:
    """Some of the keys of a window. keys int64[c]: their numbers; rows int64[m]: their rows in merge order; starts
    int64[c + 1]: where each key's rows start in `rows`.
    """

    keys: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """One column of a window: the largest piece that holds it, and the other ones joined (None: there are none)."""

    large: pa.Array
    rest: pa.Array | None

    @property
    def null_count(self) -> int:
        return int(self.large.null_count + (0 if self.rest is None else self.rest.null_count))


@dataclass(frozen=True)
class _Layout:
    """The layout of columns that the same pieces hold. shifts: by piece, the difference between position and row
    number; the last item is that of row -1.

    large, rest: numbers of pieces. shifts int64[k + 1]; _NONE where the piece lacks the columns.
    """

    large: int
    rest: tuple[int, ...]
    shifts: npt.NDArray[np.int64]


def _layout(holders: tuple[int, ...], offsets: npt.NDArray[np.int64]) -> _Layout:
    large = max(holders, key=lambda piece: offsets[piece + 1] - offsets[piece])
    rest = tuple(piece for piece in holders if piece != large)
    shifts = np.full(len(offsets), _NONE, np.int64)
    position = 0
    for piece in (large, *rest):
        shifts[piece] = position - offsets[piece]
        position += int(offsets[piece + 1] - offsets[piece])
    return _Layout(large, rest, shifts)


@dataclass(frozen=True)
class Window:
    """The rows of a key range. pieces: row batches. order int64[m]: row numbers by key, `sequence.field`s, arrival,
    retraction before add.

    starts int64[g + 1]: where each key's rows start in `order`.
    kinds int8[n], sequence_numbers int64[n]: by row number.
    """

    schema: TableSchema
    pieces: tuple[pa.RecordBatch, ...]
    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    sequence_numbers: npt.NDArray[np.int64]
    _columns: dict[str, Column] = field(default_factory=dict, repr=False)
    _layouts: dict[tuple[int, ...], _Layout] = field(default_factory=dict, repr=False)

    @derived_value
    def offsets(self) -> npt.NDArray[np.int64]:
        """The row number at which each piece starts, and n: int64[k + 1]."""
        return np.cumsum([0, *(piece.num_rows for piece in self.pieces)], dtype=np.int64)

    @derived_value
    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each key: int64[g]."""
        return self.order[self.starts[:-1]]

    @derived_value
    def last_rows(self) -> npt.NDArray[np.int64]:
        """The last row of each key: int64[g]."""
        return self.order[self.starts[1:] - 1]

    @derived_value
    def contested(self) -> SomeKeys:
        """The keys that have several rows, which engines need to merge: few, where a base meets a few commits."""
        return self.some_keys(np.diff(self.starts) > 1)

    def some_keys(self, chosen: npt.NDArray[np.bool_]) -> SomeKeys:
        """Return the chosen keys. chosen: bool[g]."""
        keys = np.flatnonzero(chosen)
        starts = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(self.starts[keys + 1] - self.starts[keys], out=starts[1:])
        return SomeKeys(keys, self.order[self.by_row(chosen)], starts)

    def by_row(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        """Return [m] by position in `order`, from [g] by key: each row has its key's value."""
        return np.repeat(values, np.diff(self.starts))

    @property
    def has_single_rows_only(self) -> bool:
        return len(self.starts) - 1 == len(self.order)

    @derived_value
    def _holders(self) -> dict[str, tuple[int, ...]]:
        """The pieces that hold each table column, by its name."""
        pieces_of: dict[str, list[int]] = {}
        for piece, rows in enumerate(self.pieces):
            for name in rows.schema.names:
                pieces_of.setdefault(name, []).append(piece)
        for name in _SYSTEM_NAMES:
            pieces_of.pop(name, None)
        return {name: tuple(pieces) for name, pieces in pieces_of.items()}

    @derived_value
    def names(self) -> tuple[str, ...]:
        """The table columns that some piece holds, in the table's order."""
        return in_schema_order(self.schema, self._holders)

    def chosen(self, columns: Collection[str]) -> tuple[str, ...]:
        """Return those of these columns that some piece holds, in the table's order. columns: a set, which is not
        iterated.
        """
        return tuple(name for name in self.names if name in columns)

    def holders(self, name: str) -> tuple[int, ...]:
        """Return the numbers of the pieces that hold the column; () where none does."""
        return self._holders.get(name, ())

    @derived_value
    def piece_of_row(self) -> npt.NDArray[np.int32]:
        """The piece that each row is in: int32[n + 1]; the last item, of row -1, is behind all pieces."""
        pieces = np.arange(len(self.offsets), dtype=np.int32)
        return np.repeat(pieces, np.append(np.diff(self.offsets), 1))

    def column(self, name: str) -> Column:
        """Return the column over the pieces that hold it, at least one. `choice` gives the positions of rows in it."""
        column = self._columns.get(name)
        if column is None:
            layout = self._layout(self.holders(name))
            arrays = [self.pieces[piece].column(name) for piece in (layout.large, *layout.rest)]
            large, *rest = joinable(arrays)
            joined = pa.concat_arrays(rest) if len(rest) > 1 else rest[0] if rest else None
            column = self._columns[name] = Column(large, joined)
        return column

    def forget(self, name: str) -> None:
        """Release the memory of a column that is not needed any more."""
        self._columns.pop(name, None)

    def choice(self, holders: tuple[int, ...], rows: npt.NDArray[np.int64]) -> PatchChoice:
        """Return the positions of these rows in the columns that these pieces hold, at least one; -1 is null."""
        layout = self._layout(holders)
        positions = np.maximum(rows + layout.shifts[self.piece_of_row[rows]], -1)
        return PatchChoice(positions, self.pieces[layout.large].num_rows)

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of one column, which some piece holds.

        -1 is null, as is a row whose piece lacks the column.
        """
        return self.gathered(name, self.choice(self.holders(name), rows))

    def gathered(self, name: str, choice: PatchChoice) -> pa.Array:
        """Return the values of one column for a `choice` of the pieces that hold it. Raises pyarrow.ArrowInvalid for
        more than 2 GiB of text in one column.
        """
        column = self.column(name)
        values = take_patched(column.large, column.rest, choice)
        kind = self.pieces[self.holders(name)[0]].schema.field(name).type
        return values if values.type == kind else values.cast(kind)

    def printed_key(self, row: int) -> str:
        """Return the key of a row as text, for messages."""
        return printed_key(self.schema, lambda name: self.take(name, np.array([row])))

    def _layout(self, holders: tuple[int, ...]) -> _Layout:
        layout = self._layouts.get(holders)
        if layout is None:
            layout = self._layouts[holders] = _layout(holders, self.offsets)
        return layout

    def layer(self, chosen: npt.NDArray[np.bool_]) -> Window:
        """Return the window of the chosen positions in `order`: bool[m]. Keys without any are left out.

        With order 0 3 | 1 | 2 4, chosen 1 0 | 1 | 0 1 gives order 0 | 1 | 4. Row numbers, pieces
        and caches are those of the whole window, so plans of both may be gathered from either.
        """
        counts = np.add.reduceat(chosen, self.starts[:-1], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(counts[counts > 0])])
        return replace(self, order=self.order[chosen], starts=starts)


def window_of_runs(
    schema: TableSchema,
    pieces: Sequence[pa.RecordBatch],
    run_offsets: npt.NDArray[np.int64],
    lanes: Lanes,
    full_runs: int = 0,
) -> Window:
    """Return a window of sorted runs. run_offsets: the rows where runs start, and n; lanes: of the keys of all rows.
    full_runs: so many of the oldest runs hold whole rows, of which only the newest of a key counts.

    Runs without a row here have two equal offsets in run_offsets. pieces: of the runs end to end,
    any number of each.
    """
    window = _window(schema, pieces, lanes, run_offsets)
    return window if full_runs < 2 else _newest_full_rows(window, run_offsets, full_runs)


def _newest_full_rows(window: Window, run_offsets: npt.NDArray[np.int64], full_runs: int) -> Window:
    """Return the window without whole rows of keys that have a newer whole row.

    Runs k1 k2 | k1 | k1 k2, two of them full: order 0 2 3 | 1 4 becomes 2 3 | 1 4. Otherwise
    functions would count values twice that the newer full row contains already.
    """
    is_full = window.order < run_offsets[full_runs]
    runs = np.searchsorted(run_offsets, window.order, side="right") - 1
    newest = np.maximum.reduceat(np.where(is_full, runs, -1), window.starts[:-1])
    counts = ~is_full | (runs == window.by_row(newest))
    return window if counts.all() else window.layer(counts)


def window_of_arrivals(schema: TableSchema, batches: Sequence[pa.RecordBatch]) -> Window:
    """Return a window of row batches in any order of keys."""
    return _window(schema, batches, lanes_of_keys(schema, batches), None)


def _window(
    schema: TableSchema,
    pieces: Sequence[pa.RecordBatch],
    key_lanes: Lanes,
    run_offsets: npt.NDArray[np.int64] | None,
) -> Window:
    kinds = _end_to_end(pieces, VALUE_KIND, np.dtype(np.int8))
    sequence_numbers = _end_to_end(pieces, SEQUENCE_NUMBER, np.dtype(np.int64))
    arrivals = arrival_keys(sequence_numbers, kinds)
    sequence = lanes_of_sequence(schema, pieces)
    lanes = key_lanes if sequence is None else np.concatenate([key_lanes, sequence], axis=1)
    order = (
        sort_order(lanes, arrivals)
        if run_offsets is None
        else _merged(lanes, arrivals, run_offsets)
    )
    starts = group_starts(key_lanes, order)
    return Window(schema, tuple(pieces), order, starts, kinds, sequence_numbers)


def _merged(
    lanes: Lanes, arrivals: npt.NDArray[np.int64], run_offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the merge order of sorted runs. A run that holds a key several times may have these rows in any order,
    such as by arrival: then all rows are sorted.
    """
    try:
        return merge_order(lanes, arrivals, run_offsets)
    except ValueError:
        return sort_order(lanes, arrivals)


def _end_to_end(
    pieces: Sequence[pa.RecordBatch], name: str, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    return np.concatenate([fixed_values(piece.column(name), dtype) for piece in pieces])
