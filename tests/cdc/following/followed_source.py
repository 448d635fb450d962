"""A small job for tests: follows tables of a real server into targets, from the log to the commits, in one thread.

Each round reads the log, decides what changed in the schema, carries it out, and applies the changes. A table whose
rows must be read again is read whole, in a session of psycopg, while the source stands still.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
import pyarrow as pa

from widetable import Catalog, Table
from widetable_cdc.applying.barrier_line import LsnLine
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.applying.last_states import last_states
from widetable_cdc.applying.round_rows import Round
from widetable_cdc.applying.row_events import RowEvents, row_events
from widetable_cdc.applying.target import BarrierTarget
from widetable_cdc.evolution.actions import (
    Action,
    AddColumn,
    CopyAgain,
    DropColumn,
    Park,
    RenameColumn,
    Verify,
    WidenType,
)
from widetable_cdc.evolution.alteration import alter_target, field_ids, filled_rows
from widetable_cdc.evolution.applied_form import AppliedForm, names_between
from widetable_cdc.evolution.relation_change import (
    applied_table,
    catalog_change,
    relation_change,
)
from widetable_cdc.log.changes import ChangeBatch, DecodedLog, Relation, RelationColumn
from widetable_cdc.log.log_decoder import LogDecoder
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.session import session
from widetable_cdc.source.slot import Slot
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.transport import PeekTransport
from widetable_cdc.values.column_type import column_type
from widetable_cdc.values.source_type import SourceType

SCHEMA_ACTIONS = (AddColumn, DropColumn, RenameColumn, WidenType)
OPTIONS = {"widetable.barrier-interval": "1 ms", "changelog-producer": "lookup", "bucket": "2"}


def target_of(_column: str, kind: SourceType) -> str:
    return column_type(kind).target


def relation_of(table: SourceTable) -> Relation:
    """The Relation that the log would give for a table now."""
    is_key = set(table.key) if table.identity != "f" else {c.name for c in table.columns}
    columns = tuple(
        RelationColumn(c.name, c.type.oid, c.type.typmod, c.name in is_key) for c in table.columns
    )
    return Relation(table.oid, table.schema, table.name, table.identity, columns)


@dataclass
class FollowedTable:
    """One table of the source and its target. actions: all that were decided, in their order."""

    name: str
    form: AppliedForm
    target: BarrierTarget
    actions: list[Action] = field(default_factory=list)
    is_parked: bool = False

    @property
    def table(self) -> Table:
        return self.target.table


class FollowedSource:
    """Follows tables by name. The source has the publication and the slot `slot`."""

    def __init__(self, dsn: str, catalog: Catalog, slot: str, *names: str) -> None:
        self._dsn = dsn
        self._catalog = catalog
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE PUBLICATION {slot} FOR TABLE {', '.join(names)}")
        with session(dsn, "test") as connection:
            Slot(connection, slot).create()
        self._transport = PeekTransport(dsn, slot, slot, slot)
        self.errors = ErrorTable(catalog, "db", "shop")
        self.tables = {name: self._made(name) for name in names}

    def close(self) -> None:
        self._transport.close()

    def _source(self, name: str) -> SourceTable | None:
        with session(self._dsn, "test") as connection:
            return source_tables(connection, [f"public.{name}"]).get(("public", name))

    def _made(self, name: str) -> FollowedTable:
        source = self._source(name)
        assert source is not None
        columns = {
            c.name: target_of(c.name, c.type) + (" NOT NULL" if c.name in source.key else "")
            for c in source.columns
        }
        full = f"db.{name}"
        key = list(source.key)
        table = self._catalog.create_table(full, columns, primary_key=key, options=OPTIONS)
        names = {c.attnum: c.name for c in source.columns}
        form = AppliedForm(relation_of(source), source, field_ids(table, names))
        followed = FollowedTable(
            name, form, BarrierTarget(self._catalog, full, "cdc/shop", LsnLine())
        )
        self._copy(followed)
        return followed

    def _copy(self, followed: FollowedTable) -> None:
        """Read the whole table, by texts, and replace all rows."""
        source = followed.form.table
        selected = ", ".join(f'"{c.name}"::text' for c in source.columns)
        with session(self._dsn, "test") as connection:
            rows = connection.execute(f"SELECT {selected} FROM {followed.name}").fetchall()
        columns: dict[str, pa.Array] = {}
        for at, column in enumerate(source.columns):
            texts = pa.array([row[at] for row in rows], pa.large_string())
            columns[column.name] = column_type(column.type).from_texts(texts).values
        batches = [pa.RecordBatch.from_pydict(columns)] if rows else []
        everything = pa.compute.field(source.key[0]).is_valid()
        followed.target.copy(batches, followed.target.position() or 0, everything)

    def round(self) -> int | None:
        """Apply what the log has, and confirm it. Returns the LSN of its end; None without changes."""
        part = self._transport.changes(0, 1_000_000)
        log = LogDecoder().decode(part.data)
        if log.end_lsn is None:
            return None
        for followed in self.tables.values():
            if not followed.is_parked:
                self._apply(followed, log, log.end_lsn)
        if not any(followed.is_parked for followed in self.tables.values()):
            self._transport.confirm(log.end_lsn)
        return log.end_lsn

    def _apply(self, followed: FollowedTable, log: DecodedLog, lsn: int) -> None:
        parts: list[tuple[SourceTable, ChangeBatch]] = []
        fills: dict[str, str | None] = {}
        before = len(followed.actions)
        for batch in log.batches:
            if batch.relation.name == followed.name:
                self._follow(followed, batch.relation, fills)
                parts.append((followed.form.table, batch))
        new = {type(each) for each in followed.actions[before:]}
        if Park in new:
            followed.is_parked = True
            return
        if CopyAgain in new:
            parts = []  # the copy sees their changes: the source stands still
            self._copy(followed)
        form = followed.form.table
        later = followed.target.position() or 0
        events: list[RowEvents] = []
        for table, batch in parts:
            sent = {column.name for column in batch.relation.columns}
            names = {n: to for n, to in names_between(table, form).items() if n in sent}
            part = row_events(batch, form.key, names)
            events.append(part.kept(part.event_end_lsns > later))
        types = {c.name: column_type(c.type) for c in form.columns}
        followed.target.apply(Round(last_states(events, fills), types, lsn, self.errors))
        if Verify in new:
            self._copy(followed)

    def _follow(
        self, followed: FollowedTable, relation: Relation, fills: dict[str, str | None]
    ) -> None:
        now, before = self._source(followed.name), followed.form
        actions = relation_change(before, relation, now, target_of)
        followed.actions += actions
        if now is None or not actions or isinstance(actions[0], Park):
            return
        table = applied_table(relation, now)
        if actions[:1] == tuple(each for each in actions if isinstance(each, CopyAgain)):
            actions, table = catalog_change(before, now, target_of), now
            relation = relation_of(now)
        schema = [each for each in actions if isinstance(each, SCHEMA_ACTIONS)]
        altered, fields = alter_target(
            self._catalog, f"db.{followed.name}", schema, before.fields, target_of
        )
        new = {a.name: a for a in schema if isinstance(a, AddColumn) and a.fill is not None}
        fills |= {name: action.fill for name, action in new.items()}
        typed = {
            name: column_type(a.type).from_texts(pa.array([a.fill], pa.large_string())).values
            for name, a in new.items()
        }
        if typed:
            lsn = followed.target.position() or 0
            followed.target.copy(filled_rows(altered, typed), lsn)
        followed.form = AppliedForm(relation, table, fields)
