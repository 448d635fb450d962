"""The versions of the tiles of entities: those of the history, and of the snapshots that it does not have yet.

    history up to s 7, sorted by entity, tile and time        s 8: what it changed       s 9: what it changed
    entity row    user 1 ─► tile 10:00 s 2, tile 10:00 s 9, tile 11:00 s 3               one list for each entity

A history is a table whose key begins with an entity and a tile, so its rows are read as tiles are (`tile_pieces`): by
key where they are few, else by scans of buckets and of the span of time. In: a past that is held, the plan of the
windows, the keys of the entity rows, and a span of time. Out: pieces of entity rows, each with the versions that
snapshots showed (place 0). Memory: all of them. Raises what scans, lookups and `recent_versions` raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.derive.changes.equal_keys import distinct_rows, key_numbers
from widetable.derive.versions.held_past import FedHistory, HeldPast
from widetable.derive.versions.past_versions import recent_versions
from widetable.kernels.array_types import Mask, Positions
from widetable.kernels.arrow_buffers import bool_values, fixed_values, one_array
from widetable.operations.queries.table_at import state_at
from widetable.operations.queries.tile_pieces import present_keys, tile_pieces
from widetable.operations.windows.tile_rows import TilePiece, TileRows, checked_micros, tile_rows
from widetable.operations.windows.window_plan import WindowPlan
from widetable.schema.history_columns import DELETED, FROM, HISTORY_COLUMNS, PLACE, SNAPSHOT

_MILLI: Final = 1000


class TileVersions(NamedTuple):
    """Versions of tiles, by entity, tile and snapshot.

    numbers: of the entity rows. rows: their versions; `rows.firsts` and `rows.counts` have an item for each number.
    micros: the time of the snapshot of each version. is_deleted: whether there is no tile.
    """

    numbers: Positions
    rows: TileRows
    micros: Positions
    is_deleted: Mask


class _Recent(NamedTuple):
    """Versions that the history does not have. owners: the number of the entity of each."""

    rows: TileRows
    owners: Positions


def tile_versions(
    past: HeldPast, plan: WindowPlan, keys: pa.RecordBatch, span: tuple[int, int]
) -> list[TileVersions]:
    """Read the versions of the tiles that start in a span of time, in microseconds, its end excluded."""
    plan = plan._replace(extra=HISTORY_COLUMNS)
    given = pa.Table.from_batches([keys])
    rows = _recent_rows(past, plan, given, span)
    owners, of_rows = key_numbers([given, rows], plan.entity)
    nothing = np.zeros(0, np.int64)
    recent = _Recent(tile_rows(rows, plan, nothing, nothing), of_rows)
    return [
        _merged(piece, owners[piece.numbers], recent) for piece in _stored(past, plan, keys, span)
    ]


def _stored(
    past: HeldPast, plan: WindowPlan, keys: pa.RecordBatch, span: tuple[int, int]
) -> Sequence[TilePiece]:
    """Return the entity rows with what the history has of them."""
    if past.history is None:
        schema = pa.schema([*plan.schema.arrow_schema(plan._replace(extra=()).columns), *_FIELDS])
        numbers = present_keys(keys)
        nothing = np.zeros(len(numbers), np.int64)
        return [TilePiece(numbers, tile_rows(schema.empty_table(), plan, nothing, nothing))]
    table, snapshot_id = past.history.table, past.history.snapshot_id
    of_history = plan._replace(schema=table.schema)
    return tile_pieces(state_at(table, snapshot_id), of_history, keys, span)


_FIELDS: Final = (
    pa.field(FROM, pa.timestamp("ms")),
    pa.field(SNAPSHOT, pa.int64()),
    pa.field(PLACE, pa.int64()),
    pa.field(DELETED, pa.bool_()),
)


def _recent_rows(
    past: HeldPast, plan: WindowPlan, given: pa.Table, span: tuple[int, int]
) -> pa.Table:
    """Return the versions of snapshots that the history does not have, of these entities and this span."""
    own = plan.schema.arrow_schema(plan._replace(extra=()).columns)
    fields = [field.remove_metadata().with_nullable(True) for field in own]
    schema = pa.schema([*fields, *_FIELDS])
    parts = [schema.empty_table()]
    ids = past.moments.ids
    if len(ids) and int(ids[-1]) > past.until_id:
        entities = distinct_rows(given.drop_null())

        def stored_after(time: pa.Scalar) -> list[pa.Table]:
            return [] if past.history is None else [_after(past.history, plan, time)]

        names = [*dict.fromkeys((*plan.schema.primary_keys, *plan.columns))]
        for part in recent_versions(past, entities, names, stored_after):
            parts.append(part.select(schema.names).cast(schema))
    rows = pa.concat_tables(parts)
    starts = checked_micros(one_array(rows.column(plan.tile)))
    return rows.filter(pa.array((starts >= span[0]) & (starts < span[1])))


def _after(history: FedHistory, plan: WindowPlan, time: pa.Scalar) -> pa.Table:
    """Return the keys and times of the versions after a time."""
    names = [*plan.schema.primary_keys, FROM]
    state = state_at(history.table, history.snapshot_id)
    return state.scan(names, pc.field(FROM) > time).to_arrow()


def _merged(piece: TilePiece, owners: Positions, recent: _Recent) -> TileVersions:
    """Bring the versions of a piece into order. owners: the number of the entity of each of its rows."""
    entities, places = np.unique(owners, return_index=True)
    firsts, counts = piece.rows.firsts[places], piece.rows.counts[places]
    ends = np.cumsum(counts)
    stored = np.arange(counts.sum()) + np.repeat(firsts - ends + counts, counts)
    added = np.flatnonzero(np.isin(recent.owners, entities))
    of_rows = np.concatenate([np.repeat(entities, counts), recent.owners[added]])
    tiles = np.concatenate([piece.rows.tiles[stored], recent.rows.tiles[added]])
    columns = {
        name: pa.concat_arrays(
            [
                column.take(pa.array(stored)),
                recent.rows.columns[name].take(pa.array(added)).cast(column.type),
            ]
        )
        for name, column in piece.rows.columns.items()
    }
    numbers = {name: fixed_values(columns[name], np.int64) for name in (SNAPSHOT, PLACE)}
    order = _order(of_rows, tiles, numbers[SNAPSHOT], numbers[PLACE])
    of_rows = of_rows[order]
    columns = {name: column.take(pa.array(order)) for name, column in columns.items()}
    from_micros = fixed_values(columns.pop(FROM), np.int64) * _MILLI
    is_deleted = bool_values(columns.pop(DELETED))
    values = {name: column for name, column in columns.items() if name not in numbers}
    begins = of_rows.searchsorted(owners, "left")
    rows = TileRows(tiles[order], values, begins, of_rows.searchsorted(owners, "right") - begins)
    return TileVersions(piece.numbers, rows, from_micros, is_deleted)


def _order(owners: Positions, tiles: Positions, ids: Positions, places: Positions) -> Positions:
    """Return the places of the rows that snapshots showed, by entity, tile and snapshot."""
    shown = np.flatnonzero(places == 0)
    owners, tiles, ids = owners[shown], tiles[shown], ids[shown]
    steps = [np.diff(owners), np.diff(tiles), np.diff(ids)]
    ascends = (steps[0] > 0) | (
        (steps[0] == 0) & ((steps[1] > 0) | ((steps[1] == 0) & (steps[2] >= 0)))
    )
    return shown if bool(ascends.all()) else shown[np.lexsort((ids, tiles, owners))]
