"""Reads the tiles of entities: by key where they are few, else by scans of their buckets and their span of time.

In: a chosen snapshot, the plan of the windows, the keys of the entity rows, and the times between which tiles are
wanted. Out: pieces, each some entity rows with all their tiles. No entity row is in two pieces, and those with a null
in the key are in none. Raises what scans and lookups raise.

    few keys          one piece: the rows that begin with the keys (`LookupView.matches`)
    many keys         a piece for each bucket, read from its own files
    scattered tiles   one piece: all buckets, sorted again. The bucket key has the tile in it, or buckets are dynamic

All three give the same rows; the first one may give tiles outside of the span too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import one_array
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.key_match import match_keys
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.operations.handle.chosen_state import ChosenState
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.requested_keys import RequestedKeys, request_keys
from widetable.operations.windows.tile_rows import TilePiece, TileRows, clipped, tile_rows
from widetable.operations.windows.window_plan import WindowPlan
from widetable.read.scan import TableScan
from widetable.read.split import SplitRead
from widetable.runtime.worker_thread import in_threads

_THREADS: Final = 2
# Finding a key costs about as much as reading this many rows in order; each row that it has costs as much as one. But
# buckets are read by two threads.
_ROWS_OF_A_KEY: Final = 512
# So many keys are looked up to see how many rows a key has. Each may read a row group.
_SAMPLED: Final = 8


def tile_pieces(
    chosen: ChosenState, plan: WindowPlan, keys: pa.RecordBatch, span: tuple[int, int]
) -> list[TilePiece]:
    """Read the tiles that start in a span of time, in microseconds, its end excluded. keys: of the entity rows."""
    if chosen.snapshot is None or not keys.num_rows:
        return [_empty(plan, present_keys(keys))]
    scan = chosen.scan(plan.columns, _filter(plan, keys, span))
    if not plan.is_together:
        return [_scattered(scan, plan, keys)]
    requested = request_keys(keys, chosen.state.schema, chosen.places())
    count, rows = requested.keys.num_rows, sum(split.rows for split in scan.splits())
    if count * _ROWS_OF_A_KEY <= rows:
        with contextlib.closing(LookupView(chosen, plan.columns)) as view:
            of_a_key = 0.0 if count <= _SAMPLED else _rows_of_a_key(view, keys)
            if count * (_ROWS_OF_A_KEY + _THREADS * of_a_key) <= rows:
                return [found_tiles(view, plan, keys)]
    return _by_bucket(scan, plan, requested, keys)


def _rows_of_a_key(view: LookupView, keys: pa.RecordBatch) -> float:
    """Return the mean number of rows of some keys."""
    counts = view.matches(keys.take(pa.array(present_keys(keys)[:_SAMPLED]))).counts
    return float(counts.mean()) if len(counts) else 0.0


def found_tiles(view: LookupView, plan: WindowPlan, keys: pa.RecordBatch) -> TilePiece:
    """Look up all tiles of the keys."""
    numbers = present_keys(keys)
    matches = view.matches(keys.take(pa.array(numbers)))
    # Entity rows of one key follow each other, so that its tiles are in the processor's cache.
    order = np.argsort(matches.firsts, kind="stable")
    firsts, counts = matches.firsts[order], matches.counts[order]
    return TilePiece(
        numbers[order], tile_rows(matches.rows.select(plan.columns), plan, firsts, counts)
    )


def exact_tiles(
    view: LookupView, plan: WindowPlan, keys: pa.RecordBatch, starts: Positions
) -> TilePiece:
    """Look up tiles by their whole keys: of each entity those that start at these times, ascending microseconds."""
    numbers = present_keys(keys)
    columns = [column.take(pa.array(np.repeat(numbers, len(starts)))) for column in keys.columns]
    kind = plan.schema.arrow_field(plan.tile).type
    factor = {"ms": 1000, "us": 1}.get(kind.unit)
    units = starts * 1000 if factor is None else starts // factor
    columns.append(pa.array(np.tile(units, len(numbers))).cast(kind))
    asked_for = pa.RecordBatch.from_arrays(columns, [*keys.schema.names, plan.tile])
    rows = view.rows_of(asked_for.select(plan.schema.primary_keys)).select(plan.columns)
    exists = one_array(rows.column(plan.tile)).is_valid()
    counts = exists.to_numpy(zero_copy_only=False).reshape(len(numbers), len(starts)).sum(axis=1)
    counts = counts.astype(np.int64)
    return TilePiece(
        numbers, tile_rows(rows.filter(exists), plan, np.cumsum(counts) - counts, counts)
    )


def present_keys(keys: pa.RecordBatch) -> Positions:
    """Return the numbers of the rows without a null in the key."""
    present = np.ones(keys.num_rows, np.bool_)
    for column in keys.columns:
        if column.null_count:
            present &= column.is_valid().to_numpy(zero_copy_only=False)
    return present.nonzero()[0]


def _filter(plan: WindowPlan, keys: pa.RecordBatch, span: tuple[int, int]) -> pc.Expression | None:
    """Return the condition on the tile and on the first column of the entity; None for none."""
    schema = plan.schema
    tile, lead = pc.field(plan.tile), next(n for n in schema.trimmed_primary_key)
    kind = schema.arrow_field(plan.tile).type
    first, end = (clipped(time, kind) for time in span)
    bounds = pc.min_max(keys.column(lead)) if _has_order(keys.column(lead).type) else None
    conditions = []
    if first is not None:
        conditions.append(tile >= first)
    if end is not None:
        conditions.append(tile < end)
    if bounds is not None and bounds[0].is_valid:
        conditions += [pc.field(lead) >= bounds[0], pc.field(lead) <= bounds[1]]
    return reduce(and_, conditions) if conditions else None


def _has_order(kind: pa.DataType) -> bool:
    """Whether the smallest and the largest key of Arrow are those of the table: for integers they are."""
    return bool(pa.types.is_integer(kind))


def _by_bucket(
    scan: TableScan, plan: WindowPlan, requested: RequestedKeys, keys: pa.RecordBatch
) -> list[TilePiece]:
    """Read each bucket once; entity rows go to the piece of their bucket."""
    reads = {read.split.bucket: read for read in scan.split_reads()}
    order = np.argsort(requested.places, kind="stable")
    cuts = np.searchsorted(requested.places[order], requested.starts)
    names = requested.keys.schema.names

    def piece(number: int) -> TilePiece | None:
        read = reads.get(requested.buckets[number])
        if read is None:
            return None
        first, end = requested.starts[number : number + 2].tolist()
        numbers = order[cuts[number] : cuts[number + 1]]
        rows = _read(read, scan.arrow_schema)
        of_keys = requested.keys.slice(first, end - first)
        return TilePiece(
            numbers, _matched(rows, plan, of_keys, names, requested.places[numbers] - first)
        )

    pieces = in_threads(piece, range(len(requested.buckets)), _THREADS, "windows")
    with_tiles = [each for each in pieces if each is not None]
    left = np.ones(keys.num_rows, np.bool_)
    for each in with_tiles:
        left[each.numbers] = False
    present = present_keys(keys)
    return [*with_tiles, _empty(plan, present[left[present]])]


def _scattered(scan: TableScan, plan: WindowPlan, keys: pa.RecordBatch) -> TilePiece:
    """Read all buckets, and bring the rows into the order of the key."""
    parts = [_read(read, scan.arrow_schema) for read in scan.split_reads()]
    rows = pa.concat_tables([scan.arrow_schema.empty_table(), *parts])
    lanes = key_lanes([rows.column(name) for name in (*plan.entity, plan.tile)])
    rows = rows.take(pa.array(sort_order(lanes, np.zeros(rows.num_rows, np.int64))))
    numbers = present_keys(keys)
    present = keys.take(pa.array(numbers))
    of_keys = key_lanes(present.columns)[: len(numbers)]
    order = sort_order(of_keys, np.zeros(len(numbers), np.int64))
    starts = group_starts(of_keys, order)
    places = np.empty(len(numbers), np.int64)
    places[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    distinct = present.take(pa.array(order[starts[:-1]]))
    return TilePiece(numbers, _matched(rows, plan, distinct, plan.entity, places))


def _read(read: SplitRead, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(read.to_batches(), schema)


def _matched(
    rows: pa.Table,
    plan: WindowPlan,
    keys: pa.RecordBatch,
    names: Sequence[str],
    places: Positions,
) -> TileRows:
    """Find the rows of distinct sorted keys. places: the key of each entity row."""
    of_rows = [one_array(rows.column(name)) for name in names]
    hits, positions = match_keys([keys.column(name) for name in names], of_rows)
    edges = np.searchsorted(hits, np.arange(keys.num_rows + 1))
    # The rows of a key are consecutive, so the first one and their number say which they are.
    firsts = np.append(positions, 0)[edges[:-1]]
    return tile_rows(rows, plan, firsts[places], np.diff(edges)[places])


def _empty(plan: WindowPlan, numbers: Positions) -> TilePiece:
    """Return entity rows without tiles."""
    rows = plan.schema.arrow_schema(plan.columns).empty_table()
    nothing = np.zeros(len(numbers), np.int64)
    return TilePiece(numbers, tile_rows(rows, plan, nothing, nothing))
