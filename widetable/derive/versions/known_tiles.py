"""The tiles of entity rows as they were known at the times of the rows.

    versions of tile 10:00      2 clicks at 10:06      9 clicks at 13:00, because of a late one
    rows                        12:30 ─► 2             13:30 ─► 9

In: a past that is held, the plan of the windows, the keys and the times of the entity rows. Out: tiles, as
`feature_parts` takes them; entity rows between which nothing of their entity was committed share theirs, so the memory
is that of a piece of about a million tiles. Raises NotFoundError for a time that the past does not cover, and
UnsupportedError for a table whose rows expire without a commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.derive.versions.as_of import last_until, settled
from widetable.derive.versions.held_past import HeldPast
from widetable.derive.versions.tile_versions import TileVersions, tile_versions
from widetable.errors import UnsupportedError
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import one_array, valid_of
from widetable.kernels.windows.tile_ranges import first_at_least
from widetable.merge.record_expiry import expires_records
from widetable.operations.windows.feature_columns import span_of
from widetable.operations.windows.tile_rows import TilePiece, TileRows, tile_rows
from widetable.operations.windows.window_plan import WindowPlan
from widetable.schema import retention_options as retention
from widetable.schema.history_columns import check_kept

_TILES_AT_ONCE: Final = 1 << 20
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class _Tiles(NamedTuple):
    """The versions of each tile. starts: of the tiles. firsts, counts: their versions. micros: when each became known,
    not after any that follows.
    """

    starts: Positions
    firsts: Positions
    counts: Positions
    micros: Positions


class _States(NamedTuple):
    """What was known of an entity between two commits to it. at: a time of each. firsts, ends: the tiles that a window
    of one of its rows covers. of_row: the state of each entity row.
    """

    at: Positions
    firsts: Positions
    ends: Positions
    of_row: Positions


def known_tiles(
    past: HeldPast, plan: WindowPlan, keys: pa.RecordBatch, times: Positions
) -> Iterator[TilePiece]:
    """Yield the complete tiles of each entity row, piece by piece."""
    _check_past(past, plan, times)
    for versions in tile_versions(past, plan, keys, span_of(times, plan)):
        at = times[versions.numbers]
        tiles = _tiles(versions)
        states = _states(versions, tiles, plan, at)
        for part, members in _parts(states):
            yield _known(versions, tiles, states, part, members)


def current_tiles(
    past: HeldPast, plan: WindowPlan, keys: pa.RecordBatch, times: Positions
) -> TileRows:
    """Return the tile of the time of each entity row, one or none."""
    _check_past(past, plan, times)
    starts = np.floor_divide(times, plan.size) * plan.size
    key = [*keys.columns, _starts(starts, plan.schema.arrow_field(plan.tile).type)]
    whole = pa.RecordBatch.from_arrays(key, [*keys.schema.names, plan.tile])
    rows = past.known_rows(whole.select(plan.schema.primary_keys), times, plan.columns)
    exists = valid_of(one_array(rows.column(plan.tile)))
    counts = exists.astype(np.int64)
    return tile_rows(rows.filter(pa.array(exists)), plan, np.cumsum(counts) - counts, counts)


def _check_past(past: HeldPast, plan: WindowPlan, times: Positions) -> None:
    check_kept(plan.schema, plan.columns)
    if expires_records(plan.schema):
        raise UnsupportedError(
            "as_known and include_current",
            found=f"a table with {retention.RECORD_LEVEL_EXPIRE_TIME.key}, whose rows change without a commit",
            expected="a table of tiles that only commits change",
            action="Leave both out, or the option; tiles may expire with their partitions.",
        )
    past.places_of(times)


def _starts(starts: Positions, kind: pa.DataType) -> pa.Array:
    """Return times in microseconds as values of a tile column; null for one that its type does not have."""
    per_second = _PER_SECOND[kind.unit]
    if per_second <= 10**6:
        factor = 10**6 // per_second
        return pa.array(starts // factor, mask=starts % factor != 0).cast(kind)
    factor = per_second // 10**6
    far = np.abs(starts) > np.iinfo(np.int64).max // factor
    return pa.array(np.where(far, 0, starts) * factor, mask=far).cast(kind)


def _tiles(versions: TileVersions) -> _Tiles:
    """Divide the versions by tile. Rows of two entities are never of one tile."""
    starts = versions.rows.tiles
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = starts[1:] != starts[:-1]
    firsts = versions.rows.firsts
    is_first[firsts[firsts < len(starts)]] = True
    places = np.flatnonzero(is_first)
    counts = np.diff(np.append(places, len(starts)))
    return _Tiles(starts[places], places, counts, settled(versions.micros, places, counts))


def _states(versions: TileVersions, tiles: _Tiles, plan: WindowPlan, at: Positions) -> _States:
    firsts, counts = versions.rows.firsts, versions.rows.counts
    # In the order of time, the last version that is not after a row says what was known.
    entities = np.zeros(len(tiles.micros) + 1, np.int64)
    entities[firsts] = 1
    in_time = np.lexsort((tiles.micros, np.cumsum(entities)[:-1]))
    last = last_until(tiles.micros[in_time], firsts, counts, at)
    _, rows, of_row = np.unique(last, return_index=True, return_inverse=True)
    begins = tiles.firsts.searchsorted(firsts)
    sizes = tiles.firsts.searchsorted(firsts + counts) - begins
    ends = np.floor_divide(at, plan.size) * plan.size
    from_tile = first_at_least(tiles.starts, begins, sizes, ends - plan.longest)
    to_tile = first_at_least(tiles.starts, begins, sizes, ends)
    least = np.full(len(rows), len(tiles.starts), np.int64)
    most = np.zeros(len(rows), np.int64)
    np.minimum.at(least, of_row, from_tile)
    np.maximum.at(most, of_row, to_tile)
    # Rows of several entities share the state in which nothing was known.
    most[last[rows] < 0] = 0
    return _States(at[rows], least, np.maximum(least, most), of_row.reshape(-1))


def _parts(states: _States) -> Iterator[tuple[Positions, Positions]]:
    """Yield the numbers of states whose tiles are held at once, and the numbers of their entity rows."""
    ends = np.cumsum(states.ends - states.firsts)
    cuts = np.unique(ends // _TILES_AT_ONCE, return_index=True)[1][1:]
    by_state = np.argsort(states.of_row, kind="stable")
    edges = states.of_row[by_state].searchsorted(cuts)
    yield from zip(np.split(np.arange(len(ends)), cuts), np.split(by_state, edges), strict=True)


def _known(
    versions: TileVersions, tiles: _Tiles, states: _States, part: Positions, members: Positions
) -> TilePiece:
    """Return the tiles of some states, and the entity rows that have them."""
    firsts, counts = states.firsts[part], states.ends[part] - states.firsts[part]
    ends = np.cumsum(counts)
    pairs = np.arange(counts.sum()) + np.repeat(firsts - ends + counts, counts)
    at = np.repeat(states.at[part], counts)
    rows = last_until(tiles.micros, tiles.firsts[pairs], tiles.counts[pairs], at)
    is_there = (rows >= 0) & ~np.append(versions.is_deleted, True)[rows]
    rows = rows[is_there]
    before = np.append(0, np.cumsum(is_there))
    begins = before[ends - counts]
    own = states.of_row[members] - part[:1]
    columns = {name: column.take(pa.array(rows)) for name, column in versions.rows.columns.items()}
    of_rows = TileRows(
        versions.rows.tiles[rows], columns, begins[own], (before[ends] - begins)[own]
    )
    return TilePiece(versions.numbers[members], of_rows)
