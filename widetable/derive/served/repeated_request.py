"""Repeats requests offline: rows by key and windows over tiles, as of the snapshots that answered them.

In: what was asked, the keys and times of many requests that asked the same, and the snapshots. Out: the values, one row
for each key. The data files are read, never the local caches of lookups, which the sessions may have used.

A snapshot that is gone raises `GoneError`: it has expired and no tag keeps it, or another one has its id. Raises what
lookups and scans raise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.lsm.lookup_cost import SCAN_STRATEGY
from widetable.operations.handle.chosen_state import ChosenState
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.entity_rows import entity_rows
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.tile_pieces import tile_pieces
from widetable.operations.windows.feature_columns import feature_parts, span_of, with_features
from widetable.operations.windows.served_request import (
    AnsweringSnapshot,
    Asked,
    Lookup,
    Windows,
    answering,
)
from widetable.operations.windows.tile_sizes import Sized, plan_sizes
from widetable.operations.windows.window_plan import MICROS, WindowPlan
from widetable.read.expired import is_kept
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema

_AT: Final = "_at"


class GoneError(Exception):
    """A snapshot that is gone. snapshot_id: its id."""

    def __init__(self, snapshot_id: int, reason: str) -> None:
        super().__init__(reason)
        self.snapshot_id = snapshot_id


class RequestGroup(NamedTuple):
    """Requests that asked the same and that one snapshot answered. rows: the rows of the log, with the key columns and
    the time.
    """

    asked: Asked
    answered: AnsweringSnapshot
    rows: pa.Table


class RequestRepeater:
    """Repeats the requests of one table."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._tags: dict[str, dict[int, Snapshot]] = {}

    def values(self, requests: RequestGroup) -> pa.Table:
        """Return the values of the rows, in their order."""
        if isinstance(requests.asked, Lookup):
            return self._looked_up(requests.asked, requests)
        return self._windows(requests.asked, requests)

    def keys(self, requests: RequestGroup) -> tuple[str, ...]:
        """Return the key columns of the requests. Raises NotFoundError for a schema that is gone."""
        schema = self._schema(self._table, requests.answered)
        if isinstance(requests.asked, Lookup):
            return schema.primary_keys
        return tuple(name for name in schema.primary_keys if name != requests.asked.tile)

    def _looked_up(self, asked: Lookup, requests: RequestGroup) -> pa.Table:
        keys = requests.rows.select(self.keys(requests))
        with (
            self._state(self._table, requests.answered) as chosen,
            contextlib.closing(LookupView(chosen, asked.columns)) as view,
        ):
            return view.lookup(keys)

    def _windows(self, asked: Windows, requests: RequestGroup) -> pa.Table:
        entities = requests.rows.select([*self.keys(requests), _AT])
        with contextlib.ExitStack() as stack:
            chosen = [stack.enter_context(self._state(self._table, requests.answered))]
            for each in asked.coarse:
                coarse = OpenTable(each.path, self._table._file_io)
                chosen.append(stack.enter_context(self._state(coarse, each.answered)))
            plans = _plans(asked, [each.state.schema for each in chosen])
            rows = entity_rows(entities, plans[0].schema, plans[0].entity, _AT, None)
            span = span_of(rows.times, plans[0])
            levels = [
                tile_pieces(state, plan, rows.keys.select(plan.entity), span)
                for state, plan in zip(chosen, plans, strict=True)
            ]
            parts = feature_parts(levels, plans, rows.times)
            nothing = pa.table({_AT: rows.given.column(_AT)})
            features = with_features(nothing, plans[0], parts, "", empty_zero=asked.empty_zero)
        return features.select([name for name, _ in asked.features])

    @contextlib.contextmanager
    def _state(self, table: OpenTable, answered: AnsweringSnapshot) -> Iterator[ChosenState]:
        """Yield the state of a snapshot, with the schema of the session. Raises GoneError, also where the snapshot
        expires while the block reads it.
        """
        try:
            yield self._chosen(table, answered)
        except NotFoundError as cause:
            id = answered.id
            if id is None or self._snapshot(table, id) is not None:
                raise
            raise GoneError(id, "it has expired, and no tag keeps it") from cause

    def _chosen(self, table: OpenTable, answered: AnsweringSnapshot) -> ChosenState:
        committer = table._committer
        schema = self._schema(table, answered)
        options = {**schema.options, opt.LOOKUP_STRATEGY.key: SCAN_STRATEGY}
        state = table._state(replace(schema, options=options))
        snapshot = None
        if answered.id is not None:
            snapshot = self._snapshot(table, answered.id)
            if snapshot is None:
                raise GoneError(answered.id, "it has expired, and no tag keeps it")
            if answering(snapshot, answered.schema_id) != answered:
                raise GoneError(answered.id, "another snapshot has this id now")
        return ChosenState(snapshot, state, committer.live_files, committer.schemas.is_rescaled())

    def _schema(self, table: OpenTable, answered: AnsweringSnapshot) -> TableSchema:
        try:
            return table._committer.schemas.load(answered.schema_id)
        except NotFoundError as cause:
            if answered.id is None:
                raise
            raise GoneError(answered.id, f"its schema {answered.schema_id} is gone") from cause

    def _snapshot(self, table: OpenTable, id: int) -> Snapshot | None:
        """Return the snapshot, or that of a tag; None if both are gone."""
        if is_kept(table._file_io, table._paths, id):
            with contextlib.suppress(NotFoundError):
                return table._committer.snapshots.load(id)
        if table.path not in self._tags:
            kept: Mapping[str, Snapshot] = table._tags.all()
            self._tags[table.path] = {each.id: each for each in kept.values()}
        return self._tags[table.path].get(id)


def _plans(asked: Windows, schemas: list[TableSchema]) -> list[WindowPlan]:
    """Plan the windows with the sizes of the tiles that the session knew."""
    coarse = [
        Sized(schema, f"{each.size // MICROS} ms")
        for schema, each in zip(schemas[1:], asked.coarse, strict=True)
    ]
    size = f"{asked.tile_size // MICROS} ms"
    return plan_sizes(schemas[0], coarse, dict(asked.features), asked.tile, size)
