"""Features over windows of time, for rows with a time each and for keys as of now.

In: entity rows or keys, and windows by name. Out: the rows in their order, with a column for each window; both ways
give equal values at the same time and snapshot. Raises what `entity_rows`, `window_plan`, `tile_sizes`, `tile_pieces`
and `window_values` raise, and InvalidError for a session that was opened without a column that is needed.

    arguments ─► plan ─► entity rows ─► tiles in [earliest time - longest window, latest time) ─► values ─► columns

A session finds tiles by key:

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
from widetable.errors import InvalidError, UnsupportedError
from widetable.kernels.array_types import Positions
from widetable.messages.counted import counted
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.entity_rows import entity_rows, key_table
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.tile_pieces import exact_tiles, found_tiles, tile_pieces
from widetable.operations.windows.feature_columns import (
    check_names,
    feature_parts,
    span_of,
    with_features,
)
from widetable.operations.windows.tile_rows import TilePiece, spans_of
from widetable.operations.windows.tile_sizes import Sized, coarse_tables, plan_sizes
from widetable.operations.windows.window import TimeWindow
from widetable.operations.windows.window_plan import WindowPlan
from widetable.runtime.machine_clock import now_millis

# A window that must be found tile by tile may have this many tiles of a call.
_MOST_TILES: Final = 1 << 24
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

# Runs a function with the view of a session, while no other thread uses it.
WithView: TypeAlias = Callable[[Callable[[LookupView], TilePiece]], TilePiece]


def windows(
    table: OpenTable,
    entities: Any,
    at: str = "event_timestamp",
    *,
    features: Mapping[str, TimeWindow],
    tile: str = "tile",
    tile_size: Any = None,
    on: Sequence[str] | Mapping[str, str] | None = None,
    prefix: str = "",
    snapshot_id: int | None = None,
    empty_zero: bool = False,
    coarse: Sequence[OpenTable] | Mapping[str, OpenTable] = (),
    as_known: bool = False,
    include_current: bool = False,
) -> pa.Table:
    """Compute counts, sums and extremes over the complete tiles before the time of each row.

    Parameters
    ----------
    entities : Arrow data, frame, dict of columns or list of dicts
        Rows with the entity's key columns, a time, and any others.
    at : str, default "event_timestamp"
        The column with the time; without a zone it is UTC.
    features : dict of str to TimeWindow
        The windows (`widetable.window`) by the name of the column to add.
    tile : str, default "tile"
        The column with the start of a tile, the last one of the primary key.
    tile_size : str or timedelta, default None
        How long a tile is. None: option `widetable.tile-size`, else the greatest divisor of all lengths.
    on : list of str or dict of str to str, default None
        The columns of `entities` to those of the key. None: equal names.
    prefix : str, default ""
        A text before the name of each added column.
    snapshot_id : int, default None
        The snapshot. None: the newest one.
    empty_zero : bool, default False
        Give 0 in place of null for a sum without tiles in the window.
    coarse : list of Table or dict of str to Table, default ()
        Tables with larger tiles (by size) of the same events, for the middle of windows.
    as_known : bool, default False
        Refused: it needs a history of the tiles.
    include_current : bool, default False
        Refused: it needs a history of the tiles.

    Returns
    -------
    pyarrow.Table
        The rows in their order, then the features, null where a window or the key is empty; counts are 0.

    Raises
    ------
    InvalidError
        An argument, a row or a tile does not fit, or a sum exceeds its type.
    UnsupportedError
        The table is no tile table.
    """
    _refuse_unknown(as_known, include_current)
    call = WindowCall(features, at, tile, tile_size, on, prefix, empty_zero)
    return _windows(table, entities, call, coarse, snapshot_id)


def _windows(
    table: OpenTable,
    entities: Any,
    call: WindowCall,
    coarse: Any,
    snapshot_id: int | None,
) -> pa.Table:
    larger = coarse_tables(coarse, OpenTable)
    if larger and snapshot_id is not None:
        raise refused(
            snapshot_id, "snapshot_id", "None beside `coarse`, of which the newest is read"
        )
    prefix, empty_zero = text(call.prefix, "prefix"), flag(call.empty_zero, "empty_zero")
    chosen = [chosen_state(table, snapshot_id), *(chosen_state(each) for _, each in larger)]
    schemas = [each.state.schema for each in chosen]
    sized = [Sized(schema, size) for schema, (size, _) in zip(schemas[1:], larger, strict=True)]
    plans = plan_sizes(schemas[0], sized, call.features, call.tile, call.tile_size)
    rows = entity_rows(entities, schemas[0], plans[0].entity, call.at, call.on)
    check_names(rows.given, plans[0], prefix)
    span = span_of(rows.times, plans[0])
    read = [
        tile_pieces(state, plan, rows.keys.select(plan.entity), span)
        for state, plan in zip(chosen, plans, strict=True)
    ]
    parts = feature_parts(read, plans, rows.times)
    return with_features(rows.given, plans[0], parts, prefix, empty_zero=empty_zero)


def _refuse_unknown(as_known: Any, include_current: Any) -> None:
    for name, value in (("as_known", as_known), ("include_current", include_current)):
        if flag(value, name):
            raise UnsupportedError(
                name,
                found="a table of tiles, which does not say when each event was committed",
                expected="a history of the tiles (history.table), which windows do not read yet",
                action=f"Leave `{name}` out.",
            )


class OpenedTiles(NamedTuple):
    """A session of a tile table. size: as given, for a coarse one."""

    view: LookupView
    with_view: WithView
    size: Any = None


class WindowCall(NamedTuple):
    """The arguments of a call. at: the name of a column, or the time of a session."""

    features: Mapping[str, TimeWindow]
    at: Any
    tile: str
    tile_size: Any
    on: Sequence[str] | Mapping[str, str] | None
    prefix: str
    empty_zero: bool


def session_windows(keys: Any, call: WindowCall, sessions: Sequence[OpenedTiles]) -> pa.Table:
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
    return with_features(given, plans[0], parts, prefix, empty_zero=empty_zero)


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
