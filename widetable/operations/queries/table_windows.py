"""Features over windows of time, for the keys of a lookup session, as of now.

In: keys, and windows by name. Out: the keys in their order, with a column for each window; the values are those of
`Table.windows` at the same time and snapshot. Raises what `entity_rows`, `window_plan`, `tile_sizes`, `tile_pieces` and
`window_values` raise, and InvalidError for a session that was opened without a column that is needed.

    arguments ─► plan ─► keys ─► tiles that a window covers now ─► values ─► columns

Tiles are found by key:

    together     the rows that begin with the keys
    scattered    the tiles of the windows by their whole keys: no more than the longest window has tiles
    coarse       by their whole keys too: few fine ones at both ends, few coarse ones between
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.arguments import flag, refused, text, whole_number
from widetable.errors import InvalidError
from widetable.kernels.array_types import Positions
from widetable.messages.counted import counted
from widetable.operations.queries.entity_rows import key_table
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.tile_pieces import exact_tiles, found_tiles
from widetable.operations.windows.feature_columns import (
    check_names,
    feature_parts,
    with_features,
)
from widetable.operations.windows.tile_rows import TilePiece, spans_of
from widetable.operations.windows.tile_sizes import Sized, plan_sizes
from widetable.operations.windows.window import TimeWindow
from widetable.operations.windows.window_plan import WindowPlan
from widetable.runtime.machine_clock import now_millis

# A window that must be found tile by tile may have this many tiles of a call.
_MOST_TILES: Final = 1 << 24
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

# Runs a function with the view of a session, while no other thread uses it.
WithView: TypeAlias = Callable[[Callable[[LookupView], TilePiece]], TilePiece]


class OpenedTiles(NamedTuple):
    """A session of a tile table. size: as given, for a coarse one."""

    view: LookupView
    with_view: WithView
    size: Any = None


class WindowCall(NamedTuple):
    """The unchecked arguments of a call. at: the name of a column, or the time of a session."""

    features: Mapping[str, TimeWindow]
    at: Any
    tile: str
    tile_size: Any
    on: Sequence[str] | Mapping[str, str] | None
    prefix: str
    empty_zero: bool
    as_known: bool = False
    include_current: bool = False


class WindowsAnswer(NamedTuple):
    """The rows of an answer, and what was asked. keys: the entity's columns, in the types of the table. at: the time,
    in microseconds. plans: that of the table itself, then those of the coarse ones.
    """

    rows: pa.Table
    keys: pa.RecordBatch
    at: int
    plans: Sequence[WindowPlan]
    prefix: str
    empty_zero: bool


def session_windows(keys: Any, call: WindowCall, sessions: Sequence[OpenedTiles]) -> WindowsAnswer:
    """Answer a call. sessions: that of the table itself, then those of the coarse ones."""
    prefix, empty_zero = text(call.prefix, "prefix"), flag(call.empty_zero, "empty_zero")
    schemas = [each.view.schema for each in sessions]
    sized = [
        Sized(schema, each.size) for schema, each in zip(schemas[1:], sessions[1:], strict=True)
    ]
    plans = plan_sizes(schemas[0], sized, call.features, call.tile, call.tile_size)
    for each, plan in zip(sessions, plans, strict=True):
        _check_columns(each.view, plan)
    given, batch = key_table(keys, schemas[0], plans[0].entity, call.on)
    check_names(given, plans[0], prefix)
    now = _micros(call.at)
    starts: Sequence[Positions | None] = [None]
    if len(plans) > 1 or not plans[0].is_together:
        starts = _starts(plans, now)
    levels = [
        [each.with_view(_finder(plan, batch.select(plan.entity), wanted))]
        for each, plan, wanted in zip(sessions, plans, starts, strict=True)
    ]
    times = np.full(given.num_rows, now, np.int64)
    parts = feature_parts(levels, plans, times)
    rows = with_features(given, plans[0], parts, prefix, empty_zero=empty_zero)
    return WindowsAnswer(rows, batch.select(plans[0].entity), now, plans, prefix, empty_zero)


def _finder(
    plan: WindowPlan, keys: pa.RecordBatch, starts: Positions | None
) -> Callable[[LookupView], TilePiece]:
    if starts is None:
        return lambda view: found_tiles(view, plan, keys)
    if len(starts) * keys.num_rows > _MOST_TILES:
        raise InvalidError(
            "keys",
            found=f"{counted(keys.num_rows, 'key')} with {counted(len(starts), 'tile')} each",
            expected=f"at most {_MOST_TILES} tiles in a call",
            action="Ask for fewer keys at once, or name the entity as the bucket key of the table.",
        )
    return lambda view: exact_tiles(view, plan, keys, starts)


def _starts(plans: Sequence[WindowPlan], now: int) -> list[Positions]:
    """Return for each plan the starts of all tiles that its windows need at a time, ascending."""
    order = sorted(range(len(plans)), key=lambda number: plans[number].size)
    sizes = [plans[number].size for number in order]
    starts: list[list[Positions]] = [[np.empty(0, np.int64)] for _ in plans]
    for micros in {window.micros for window in plans[0].windows}:
        levels = spans_of(sizes, np.array([now], np.int64), micros)
        for number, spans in zip(order, levels, strict=True):
            size = plans[number].size
            edges = [(int(span.begin[0]), int(span.end[0])) for span in spans]
            _check_length(max(end - begin for begin, end in edges), size)
            starts[number] += [np.arange(*each, size, dtype=np.int64) for each in edges]
    return [np.unique(np.concatenate(each)) for each in starts]


def _check_length(micros: int, size: int) -> None:
    if micros // size > _MOST_TILES:
        raise InvalidError(
            "features",
            found=f"a window with {counted(micros // size, 'tile')}",
            expected=f"at most {_MOST_TILES} tiles, which are looked up one by one",
            action="Correct the length of the window, or name the entity as the bucket key of the table.",
        )


def _check_columns(view: LookupView, plan: WindowPlan) -> None:
    missing = [name for name in plan.columns if name not in view.arrow_schema.names]
    if missing:
        raise InvalidError(
            "lookup session",
            found=f"a session that was opened without {', '.join(missing)}",
            expected="one that reads the key and the columns of all features",
            action="Open it with these columns, or with all.",
        )


def _micros(at: Any) -> int:
    """Return a time in microseconds, rounded down; None is now. A datetime without a zone is UTC."""
    if at is None:
        return now_millis() * 1000
    if isinstance(at, datetime):
        try:
            moment = datetime.combine(at.date(), at.time(), at.tzinfo or timezone.utc)
            return (moment - _EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError):  # pandas.NaT
            raise refused(at, "at", "a datetime, epoch milliseconds, or None") from None
    return whole_number(at, "at", least=-(10**15), most=10**15) * 1000
