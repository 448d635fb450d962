"""Puts the features of pieces of entity rows together, as columns beside the rows.

In: the tiles of entity rows, piece by piece, and the rows. Out: the rows in their order, with a column a feature.
Pure. Raises InvalidError for a feature that has the name of a column, and what `window_values` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.array_types import Positions
from widetable.operations.windows.tile_rows import TilePiece, TileRows, joined_rows, rows_of
from widetable.operations.windows.window_plan import WindowPlan
from widetable.operations.windows.window_values import window_values


class FeaturePart(NamedTuple):
    """The features of some entity rows, by their numbers."""

    numbers: Positions
    arrays: list[pa.Array]


def span_of(times: Positions, plan: WindowPlan) -> tuple[int, int]:
    """Return the span in which tiles may count, in microseconds, its end excluded."""
    if not len(times):
        return 0, 0
    earliest, latest = int(times.min()), int(times.max())
    size = plan.size
    return earliest // size * size - plan.longest, latest // size * size


def feature_parts(
    levels: Sequence[Iterable[TilePiece]],
    plans: Sequence[WindowPlan],
    times: Positions,
    current: TileRows | None = None,
) -> list[FeaturePart]:
    """Compute the features piece by piece; tiles of several sizes are put together first, because their pieces hold
    other entity rows. current: the tile of the time, of entity rows for which it counts too.
    """

    def part(numbers: Positions, rows: Sequence[TileRows], sizes: Sequence[int]) -> FeaturePart:
        own = None if current is None else rows_of(current, numbers)
        windows = plans[0].windows
        return FeaturePart(
            numbers, window_values(windows, rows, sizes, times[numbers], numbers, own)
        )

    if len(levels) == 1:
        return [part(piece.numbers, [piece.rows], [plans[0].size]) for piece in levels[0]]
    pieces = [list(level) for level in levels]
    order = sorted(range(len(plans)), key=lambda number: plans[number].size)
    numbers = np.concatenate([piece.numbers for piece in pieces[0]])
    rows = [joined_rows(pieces[number], len(times)) for number in order]
    of_rows = [
        each._replace(firsts=each.firsts[numbers], counts=each.counts[numbers]) for each in rows
    ]
    return [part(numbers, of_rows, [plans[number].size for number in order])]


def check_names(
    given: pa.Table, plan: WindowPlan, prefix: str, same_name: Callable[[str], str] = str
) -> None:
    """Refuse a feature that would have the name of a column of the entities. same_name: maps names that count as the
    same name to one text.
    """
    taken = {same_name(name): name for name in given.column_names}
    for window in plan.windows:
        name = same_name(prefix + window.name)
        if name in taken:
            raise InvalidError(
                f"feature {window.name!r}",
                found=f"a column {taken[name]!r} of the entities",
                expected="another name",
                action="Give a `prefix`, or rename the feature.",
            )


def with_features(
    given: pa.Table,
    plan: WindowPlan,
    parts: Sequence[FeaturePart],
    prefix: str,
    *,
    empty_zero: bool,
) -> pa.Table:
    """Add the features to the entity rows; rows that are in no part have null."""
    place_of = np.full(given.num_rows, -1, np.int64)
    numbers = np.concatenate([part.numbers for part in parts])
    place_of[numbers] = np.arange(len(numbers))
    places = pa.array(place_of, mask=place_of < 0)
    for number, window in enumerate(plan.windows):
        arrays = [part.arrays[number] for part in parts]
        if empty_zero and not window.function.picks:
            arrays = [array.fill_null(pa.scalar(0, window.type)) for array in arrays]
        # A concatenation of texts may exceed 2 GiB, which `take` of chunks does not.
        column = pa.chunked_array(arrays, window.type).take(places)
        given = given.append_column(pa.field(prefix + window.name, window.type), column)
    return given
