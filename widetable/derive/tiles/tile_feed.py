"""Keeps a table of large tiles up to date with one of small tiles: a round of the maintainer of the large ones.

    fine changed                   coarse gets, in one commit
    user 1, 10:00, 11:00           -D user 1, 00:00     then  +I user 1, 00:00 with the values of 10:00
                                                              +I user 1, 00:00 with those of 11:00, ..

A round makes anew each large tile of which a small one has changed, from all small tiles that the snapshot has in it:
the engine itself adds them up. So it is right after late events, deletes, rollbacks and overwrites too, and a round is
a function of two snapshots. Its commit names the later one (`followed_until`); a consumer of the fine table keeps that,
for the next round. If it has expired nevertheless, a round overwrites the table with all tiles.

In: a table with the option `tiles.from`. Out: the number of records of a round. Memory: the small tiles of some
thousand large ones at a time. Raises InvalidError for tables that do not fit and for a small tile that does not begin
at a multiple of its size, NotFoundError for a missing fine table, and what lookups, scans and commits raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.changes.equal_keys import distinct_rows
from widetable.derive.changes.followed_until import followed_until, following
from widetable.derive.changes.row_changes import rows_between
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.tiles.coarse_plan import CoarsePlan, coarse_plan
from widetable.errors import ConflictError, InvalidError
from widetable.format.snapshot import Snapshot
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import one_array
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.neighbour import name_of, neighbour
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.operations.windows.tile_rows import check_starts
from widetable.operations.windows.time_micros import time_micros
from widetable.operations.writes.table_commit import append_messages, discard, overwrite_by
from widetable.operations.writes.table_write import any_writer
from widetable.schema.join_options import TILES_FROM
from widetable.schema.table_schema import ROW_KIND_COLUMN

# The property of its commits: the snapshot of the fine table that it has.
SOURCE: Final = "widetable.tiles.source"
_ROWS_AT_ONCE: Final = 1 << 16


class TileRound(NamedTuple):
    """The result of a round. source_id: the snapshot of the fine table. rows: the records that were written."""

    source_id: int
    rows: int


def feed_tiles(coarse: OpenTable) -> TileRound | None:
    """Bring large tiles up to the newest snapshot of the small ones; None if they are, or another is at work."""
    name = coarse.schema.typed_options.get(TILES_FROM)
    if name is None:
        return None
    fine, plan = tiles_source(coarse, name)
    lease = f"{coarse._paths.service_dir}/widetable-tiles-lease"
    with held_lease(coarse._state(), path=lease) as is_ours:
        return _round(fine, coarse, plan) if is_ours else None


def tiles_source(coarse: OpenTable, fine_name: str) -> tuple[OpenTable, CoarsePlan]:
    """Return the table of the small tiles, and how the large ones are made of them."""
    fine = neighbour(coarse, fine_name, f"option {TILES_FROM.key!r}")
    return fine, coarse_plan(fine.schema, coarse.schema, fine_name)


def _round(fine: OpenTable, coarse: OpenTable, plan: CoarsePlan) -> TileRound | None:
    consumer = f"tiles-{name_of(coarse)}"
    done_id = made_until(fine, coarse, coarse._committer.snapshots.latest())
    latest_id = fine._committer.snapshots.latest_id() or 0
    if done_id == latest_id:
        if done_id and fine._consumers.next_snapshot(consumer) != done_id:
            fine._consumers.record(consumer, done_id)
        return None
    with held(fine._state(), latest_id):
        oldest = fine._committer.snapshots.earliest()
        is_kept = done_id and oldest is not None and oldest.id <= done_id
        records = (
            _changed(fine, plan, done_id, latest_id) if is_kept else _all(fine, plan, latest_id)
        )
        by = following(_user_of(fine), fine._committer.snapshots.load(latest_id))
        rows = _committed(coarse, plan, records, by, overwrites=bool(done_id) and not is_kept)
        fine._consumers.record(consumer, latest_id)
    return TileRound(latest_id, rows)


def made_until(fine: OpenTable, coarse: OpenTable, snapshot: Snapshot | None) -> int:
    """Return the snapshot of the small tiles of which a snapshot of the large ones is made; 0 for none."""
    renew = "Drop the table of the large tiles and create it again: the next maintain fills it."
    return followed_until(fine, coarse, snapshot, _user_of(fine), what="tiles", renew=renew)


def _user_of(fine: OpenTable) -> str:
    return f"tiles/{name_of(fine)}"


def _committed(
    coarse: OpenTable,
    plan: CoarsePlan,
    records: Iterator[pa.Table],
    by: Identity,
    *,
    overwrites: bool,
) -> int:
    rows = 0
    with any_writer(coarse, [*plan.columns, ROW_KIND_COLUMN]) as writer:
        for each in records:
            writer.write(each)
            rows += each.num_rows
        messages = writer.finish()
    properties = {SOURCE: str(by.identifier)}
    commit = partial(overwrite_by, whole_table=True) if overwrites else append_messages
    try:
        done = commit(coarse, messages, by=by, properties=properties)
    except (ConflictError, InvalidError):
        discard(coarse, messages)
        raise
    if not done.committed and messages:
        discard(coarse, messages)
    return rows if done.committed else 0


def _all(fine: OpenTable, plan: CoarsePlan, snapshot_id: int) -> Iterator[pa.Table]:
    """Yield all small tiles, with the starts of their large ones."""
    for batch in scan_at(fine, snapshot_id, plan.columns).to_batches():
        yield _added(plan, pa.Table.from_batches([batch]))


def _changed(fine: OpenTable, plan: CoarsePlan, after_id: int, until_id: int) -> Iterator[pa.Table]:
    """Yield the records that make the changed large tiles anew."""
    key, per_tile = list(plan.key), plan.coarse_size // plan.fine_size
    at_once = max(_ROWS_AT_ONCE // per_tile, 1)
    with (
        closing(view_at(fine, after_id, plan.columns)) as old,
        closing(view_at(fine, until_id, plan.columns)) as view,
    ):
        for before, after in rows_between(fine, after_id, until_id, old, view):
            is_changed = pa.array(~equal_rows(before, after))
            keys = [each.filter(is_changed).select(key) for each in (before, after)]
            there = pa.concat_tables([each.filter(each.column(0).is_valid()) for each in keys])
            tiles = distinct_rows(_floored(plan, there))
            for start in range(0, tiles.num_rows, at_once):
                chosen = tiles.slice(start, at_once)
                yield _gone(plan, chosen, view.arrow_schema)
                rows = view.lookup(_parts(plan, chosen, per_tile))
                yield _added(plan, rows.filter(rows.column(0).is_valid()))


def _parts(plan: CoarsePlan, tiles: pa.Table, per_tile: int) -> pa.Table:
    """Return the keys that the small tiles of large ones may have, in order of time."""
    places = np.repeat(np.arange(tiles.num_rows), per_tile)
    starts = _micros(tiles, plan.tile)[places]
    starts = starts + np.tile(np.arange(per_tile) * plan.fine_size, tiles.num_rows)
    return _with_starts(plan, tiles.take(pa.array(places)), starts)


def _floored(plan: CoarsePlan, rows: pa.Table) -> pa.Table:
    starts = _micros(rows, plan.tile)
    check_starts(rows, starts, plan.key, plan.fine_size)
    return _with_starts(plan, rows, np.floor_divide(starts, plan.coarse_size) * plan.coarse_size)


def _added(plan: CoarsePlan, rows: pa.Table) -> pa.Table:
    kinds = pa.repeat(pa.scalar("+I"), rows.num_rows)
    return _floored(plan, rows).append_column(ROW_KIND_COLUMN, kinds)


def _gone(plan: CoarsePlan, tiles: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return records that remove large tiles."""
    count = tiles.num_rows
    nulls = {name: pa.nulls(count, schema.field(name).type) for name in plan.values}
    columns = [tiles.column(name) if name in plan.key else nulls[name] for name in plan.columns]
    kinds = pa.repeat(pa.scalar("-D"), count)
    return pa.Table.from_arrays([*columns, kinds], [*plan.columns, ROW_KIND_COLUMN])


def _micros(rows: pa.Table, name: str) -> Positions:
    return time_micros(one_array(rows.column(name)))


def _with_starts(plan: CoarsePlan, rows: pa.Table, micros: Positions) -> pa.Table:
    """Return the rows with these starts of tiles, in the type of their column."""
    place = rows.column_names.index(plan.tile)
    field = rows.schema.field(place)
    unzoned = pa.array(micros, pa.int64()).cast(pa.timestamp("us", field.type.tz))
    return rows.set_column(place, field, unzoned.cast(field.type))
