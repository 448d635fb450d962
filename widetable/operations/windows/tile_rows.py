"""Rows of tiles by key, and the ranges of rows that a window covers.

In: rows of the tile table in order of key and tile, and which of them belong to each entity row. Out: `TileRows`, and
ranges as kernels take them (`kernels.windows.tile_ranges`). Pure. Raises InvalidError for a tile that does not begin
at a multiple of its size.

Rule W1, with tiles of 1 h and a window of 2 h at 12:30. The tile of 12:30 is left out, because it may have events that
are later than 12:30:

    tiles      | 09:00 | 10:00 | 11:00 | 12:00 |
    window             [ 10:00   11:00 )    ^ 12:30

Several sizes: whole coarse tiles in the middle, finer ones at both ends. The window [22:00, 02:00 two days later):

    1 d                   [ day                ) [ day 2 )
    1 h      [ 22:00 23:00 )                               [ 00:00 01:00 )
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import one_array
from widetable.kernels.windows.tile_ranges import first_at_least
from widetable.operations.windows.time_micros import time_micros
from widetable.operations.windows.window_plan import MICROS, WindowPlan

# Beyond it, the microseconds of a time and of a window before it may not fit into 64 bits.
FARTHEST: Final = 1 << 62


class TileRows(NamedTuple):
    """Rows of one tile table. tiles: their starts in microseconds. columns: the columns of the features. Entity row n
    has the rows from firsts[n] on, counts[n] of them, in order of the tile.
    """

    tiles: Positions
    columns: dict[str, pa.Array]
    firsts: Positions
    counts: Positions


class TilePiece(NamedTuple):
    """Entity rows, by their numbers, and their tiles: `rows.firsts` and `rows.counts` have an item for each number."""

    numbers: Positions
    rows: TileRows


class TileRanges(NamedTuple):
    """The ranges of rows of one window for each entity row: int64[ranges, n] each."""

    starts: Positions
    ends: Positions


class Span(NamedTuple):
    """Spans of time, one for each entity row, in microseconds: from `begin` up to, but not including, `end`."""

    begin: Positions
    end: Positions


def tile_rows(rows: pa.Table, plan: WindowPlan, firsts: Positions, counts: Positions) -> TileRows:
    """Make the rows of a table that has the columns of the plan."""
    tiles = checked_micros(one_array(rows.column(plan.tile)))
    check_starts(rows, tiles, [*plan.entity, plan.tile], plan.size)
    columns = {name: one_array(rows.column(name)) for name in plan.values}
    return TileRows(tiles, columns, firsts, counts)


def checked_micros(times: pa.Array) -> Positions:
    """Return the times in microseconds. Raises InvalidError for one from which no window can be reached."""
    micros = time_micros(times)
    far = np.abs(micros // 2) > FARTHEST // 2
    if far.any():
        raise InvalidError(
            "times",
            found=f"a time that is {micros[far.argmax()]} us after 1970, in row {far.argmax()}",
            expected=f"times within {FARTHEST} us of 1970",
            action="Correct the time.",
        )
    return micros


def joined_columns(levels: Sequence[TileRows]) -> dict[str, pa.Array]:
    """Put the columns of several tile tables behind one another."""
    if len(levels) == 1:
        return levels[0].columns
    return {
        name: pa.concat_arrays([level.columns[name] for level in levels])
        for name in levels[0].columns
    }


def joined_rows(parts: Sequence[TilePiece], count: int) -> TileRows:
    """Make one of parts that hold the tiles of different entity rows, by their numbers. count: of all entity rows."""
    firsts, counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    offset = 0
    for numbers, rows in parts:
        firsts[numbers] = rows.firsts + offset
        counts[numbers] = rows.counts
        offset += len(rows.tiles)
    all_rows = [rows for _, rows in parts]
    tiles = np.concatenate([rows.tiles for rows in all_rows])
    return TileRows(tiles, joined_columns(all_rows), firsts, counts)


def rows_of(rows: TileRows, numbers: Positions) -> TileRows:
    """Return the rows of these entity rows, those of equal ones as often as they come."""
    counts = rows.counts[numbers]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places = np.arange(total) + np.repeat(rows.firsts[numbers] - ends + counts, counts)
    columns = {name: column.take(pa.array(places)) for name, column in rows.columns.items()}
    return TileRows(rows.tiles[places], columns, ends - counts, counts)


def spans_of(sizes: Sequence[int], times: Positions, micros: int) -> list[list[Span]]:
    """Return the spans of each level, the finest first, that a window of this length covers at each time.

    sizes: of the tiles, in microseconds, ascending; each is a multiple of the one before it. The coarsest level has one
    span, the others two, one at each end. A span of equal ends is empty.
    """
    upper = np.floor_divide(times, sizes[0]) * sizes[0]
    lower = upper - micros
    # What coarser levels cover, from `begin` to `end`; nothing where they are equal.
    begin, end = upper, upper
    levels: list[list[Span]] = []
    for size in reversed(sizes):
        first, last = -(np.floor_divide(-lower, size) * size), np.floor_divide(upper, size) * size
        last = np.maximum(first, last)
        covered = begin < end
        spans = [Span(first, np.where(covered, begin, last))]
        if levels:
            spans.append(Span(np.where(covered, end, last), last))
        levels.append(spans)
        begin, end = first, last
    return levels[::-1]


def ranges_of(
    levels: Sequence[TileRows], sizes: Sequence[int], times: Positions, micros: int
) -> TileRanges:
    """Return the rows that a window of this length covers at each time.

    levels: the rows by size of tile, the finest first; those of a level are counted behind those of the finer ones
    (`joined_columns`).
    """
    starts: list[Positions] = []
    ends: list[Positions] = []
    offset = 0
    spans_of_levels = spans_of(sizes, times, micros)
    for level, spans, size in zip(levels, spans_of_levels, sizes, strict=True):
        for span in spans:
            for place, time in ((starts, span.begin), (ends, span.end)):
                rows = first_at_least(level.tiles, level.firsts, level.counts, time, size)
                place.append(rows + offset if offset else rows)
        offset += len(level.tiles)
    return TileRanges(np.stack(starts), np.stack(ends))


def check_starts(
    rows: pa.Table, tiles: npt.NDArray[np.int64], names: Sequence[str], size: int
) -> None:
    """Refuse rows whose time is no start of a tile: with another size, windows would cover parts of tiles.

    tiles: the times, in microseconds. names: the key, the tile last. size: that of a tile, in microseconds.
    """
    wrong = tiles % size != 0
    if wrong.any():
        shown = [name for name in names if name in rows.column_names]
        row = rows.select(shown).slice(int(wrong.argmax()), 1).to_pylist()[0]
        key = ", ".join(f"{name}={value}" for name, value in row.items())
        raise InvalidError(
            f"column {names[-1]!r}",
            found=f"the row {key}",
            expected=f"starts of tiles, multiples of {size // MICROS} ms since 1970-01-01 00:00 UTC",
            action="Say how long a tile is (tile_size), or correct the rows.",
        )


def clipped(time: int, kind: pa.DataType) -> pa.Scalar | None:
    """Return a time in microseconds as a value of a tile column, rounded down; None for one beyond the calendar."""
    if not -62_135_596_800_000_000 <= time < 253_402_300_800_000_000:
        return None
    if kind.unit == "ns" and abs(time) > (1 << 63) // 1000 - 1:
        return None
    scaled = (
        time * 1000 if kind.unit == "ns" else time // {"s": 10**6, "ms": 1000, "us": 1}[kind.unit]
    )
    return pc.cast(pa.scalar(scaled, pa.int64()), kind)
