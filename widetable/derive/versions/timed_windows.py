"""Features over windows of time, for rows with a time each: `Table.windows`.

    arguments ─► plan ─► entity rows ─► tiles in [earliest time - longest window, latest time) ─► values ─► columns

    tiles         complete ones                              that of the time (`include_current`)
    of            the snapshot; with `as_known` the past     the past

The past is the history of the table and the snapshots that it does not have yet. In: entity rows, and windows by name.
Out: the rows in their order, with a column for each window. Raises what `entity_rows`, `window_plan`, `tile_sizes`,
`tile_pieces`, `known_tiles` and `window_values` raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import pyarrow as pa

from widetable.arguments import flag, refused, text
from widetable.derive.tiles.usable_tiles import serves
from widetable.derive.versions.held_past import HeldPast, held_past
from widetable.derive.versions.known_tiles import current_tiles, known_tiles
from widetable.derive.versions.point_in_time import FINAL_BEFORE
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.entity_rows import entity_rows
from widetable.operations.queries.table_windows import WindowCall
from widetable.operations.queries.tile_pieces import tile_pieces
from widetable.operations.windows.feature_columns import (
    check_names,
    feature_parts,
    span_of,
    with_features,
)
from widetable.operations.windows.tile_sizes import Sized, coarse_tables, plan_sizes
from widetable.operations.windows.window import TimeWindow
from widetable.operations.windows.window_plan import WindowPlan


class TimedTiles(NamedTuple):
    """What a call reads: the table and the coarse ones, each as of a snapshot. sizes: of the coarse ones, as given.
    past: None where no time needs it.
    """

    chosen: Sequence[ChosenState]
    sizes: Sequence[Any]
    past: HeldPast | None


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
    on, prefix
        As in `Table.point_in_time`, for the key without the tile.
    snapshot_id : int, default None
        The snapshot. None: the newest one.
    empty_zero : bool, default False
        Give 0 in place of null for a sum without tiles in the window.
    coarse : list of Table or dict of str to Table, default ()
        Tables with larger tiles (by size) of the same events, for the middle of windows.
    as_known : bool, default False
        Count only what was committed by the time of the row; `history.table` keeps it. `coarse` is not read.
    include_current : bool, default False
        Add to each window the tile of the time, as it was known then, also without `as_known`.

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
    NotFoundError
        A time is before what is kept of the past.
    """
    how = features, at, tile, tile_size, on, prefix, empty_zero, as_known, include_current
    return _windows(table, entities, WindowCall(*how), coarse, snapshot_id)


def _windows(
    table: OpenTable, entities: Any, call: WindowCall, coarse: Any, snapshot_id: int | None
) -> pa.Table:
    larger = checked_coarse(call, coarse, snapshot_id)
    with ExitStack() as stack:
        past = held_past(table, stack) if reads_past(call) else None
        chosen, larger = chosen_tiles(table, larger, snapshot_id)
        return timed_windows(entities, call, TimedTiles(chosen, [size for size, _ in larger], past))


def chosen_tiles(
    table: OpenTable, larger: Sequence[tuple[Any, OpenTable]], snapshot_id: int | None
) -> tuple[list[ChosenState], list[tuple[Any, OpenTable]]]:
    """Return the states that a call reads, the table's first, and those of the coarse tables that serve."""
    states = [chosen_state(each) for _, each in larger]
    # After the larger tiles, so that these are not ahead.
    fine = chosen_state(table, snapshot_id)
    pairs = zip(larger, states, strict=True)
    used = [(pair, state) for pair, state in pairs if serves(pair[1], state, table, fine)]
    return [fine, *(state for _, state in used)], [pair for pair, _ in used]


def reads_past(call: WindowCall) -> bool:
    """Whether a call needs the past of the table."""
    as_known = flag(call.as_known, "as_known")
    return flag(call.include_current, "include_current") or as_known


def checked_coarse(
    call: WindowCall, coarse: Any, snapshot_id: int | None
) -> list[tuple[Any, OpenTable]]:
    """Return the coarse tables with their sizes. Raises InvalidError for a snapshot beside what has none."""
    larger = coarse_tables(coarse, OpenTable)
    if larger and snapshot_id is not None:
        raise refused(
            snapshot_id, "snapshot_id", "None beside `coarse`, of which the newest is read"
        )
    if snapshot_id is not None and flag(call.as_known, "as_known"):
        expected = "None beside `as_known`, which reads the snapshot of each row's time"
        raise refused(snapshot_id, "snapshot_id", expected)
    return larger


def window_plans(schemas: TimedTiles, call: WindowCall) -> list[WindowPlan]:
    """Return the plan of each table, the table itself first."""
    fine, *others = [each.state.schema for each in schemas.chosen]
    sized = [Sized(schema, size) for schema, size in zip(others, schemas.sizes, strict=True)]
    return plan_sizes(fine, sized, call.features, call.tile, call.tile_size)


def timed_windows(entities: Any, call: WindowCall, read: TimedTiles) -> pa.Table:
    """Answer a call of which the snapshots are chosen, and the past is held."""
    prefix, empty_zero = text(call.prefix, "prefix"), flag(call.empty_zero, "empty_zero")
    plans = window_plans(read, call)
    rows = entity_rows(entities, read.chosen[0].state.schema, plans[0].entity, call.at, call.on)
    check_names(rows.given, plans[0], prefix)
    keys, past = rows.keys.select(plans[0].entity), read.past
    current = None
    if past is not None and call.include_current:
        current = current_tiles(past, plans[0], keys, rows.times)
    if past is not None and call.as_known:
        # A coarse tile knows an event only when it was fed: the finest tiles alone know it when it was committed.
        plans = plans[:1]
        parts = feature_parts(
            [known_tiles(past, plans[0], keys, rows.times)], plans, rows.times, current
        )
    else:
        span = span_of(rows.times, plans[0])
        pieces = [
            tile_pieces(state, plan, rows.keys.select(plan.entity), span)
            for state, plan in zip(read.chosen, plans, strict=True)
        ]
        parts = feature_parts(pieces, plans, rows.times, current)
    result = with_features(rows.given, plans[0], parts, prefix, empty_zero=empty_zero)
    return result.replace_schema_metadata(
        {**(result.schema.metadata or {}), **metadata_of(read, call)} or None
    )


def metadata_of(read: TimedTiles, call: WindowCall) -> dict[str, str]:
    """Return what the result says about itself: until when no later commit changes it."""
    if read.past is None or not call.as_known:
        return {}
    return {FINAL_BEFORE: str(read.past.moments.final_before_micros)}
