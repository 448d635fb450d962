"""Lookup joins: left rows, each with the row of a table (the dim) that has its key.

    left rows ─► gathered ─► their keys ─► rows of one snapshot of the dim, by key ─► the same batches with its columns

`lookup_join` does it for batches at hand. Engines that run tasks elsewhere make a `LookupJoin` where they plan and
send it; each of their tasks takes a pin (`commit/lookup_pin.py`) and joins with the snapshot that it names. The rules
are those of `join_plan`, and for `partitions` those of `join_partitions`.

A snapshot has the columns of its time. They are found by what a table keeps of a column for all its life, its id: one
that was renamed is found, one that the snapshot does not have yet is null, one that it has no more is an error. Raises
what `join_plan` raises, NotFoundError for a snapshot that has expired, and what lookups raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import options as opt
from widetable.arguments import path, refused
from widetable.commit.lookup_pin import (
    NO_SNAPSHOT,
    LookupPin,
    PinnedBatch,
    hold_newest,
    pin_batch,
    pin_of,
)
from widetable.commit.read_lease import ReadLease, hold
from widetable.commit.table_identity import check_identity
from widetable.errors import InvalidError, NotFoundError
from widetable.format.row_budget import RowBudget
from widetable.format.snapshot import Snapshot
from widetable.kernels.arrow_buffers import one_array
from widetable.operations.join_partitions import partition_values
from widetable.operations.join_plan import JoinArguments, JoinPlan, SameName, key_column, plan_join
from widetable.operations.kept_lookups import KeptLookups
from widetable.operations.open_table import OpenTable
from widetable.operations.snapshot_choice import load_snapshot
from widetable.row_kind import is_retraction
from widetable.schema import TableSchema
from widetable.storage.locate import locate
from widetable.types import arrow_type
from widetable.write.safe_cast import safe_cast
from widetable.write.write_batch import row_kinds

_Mask: TypeAlias = npt.NDArray[np.bool_]

# One lookup of 100,000 keys takes much less than ten of 10,000.
_MOST_ROWS: Final = 131_072
_FIRST_ROWS: Final = 16_384
_BYTES: Final = 64 << 20


def lookup_join(
    batches: Any,
    dim: Any,
    on: Any,
    columns: Sequence[str] | None = None,
    *,
    how: str = "left",
    prefix: str = "",
    partitions: str | None = None,
    snapshot_id: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Left rows with columns of the rows of `dim` that have their keys, in their order.

    batches: a RecordBatchReader, Table, RecordBatch, or an iterable of RecordBatches of one schema. dim: a table, or
    its path. on: the left columns that hold its primary key, as a list where the names are the same, else as a dict
    of left to dim columns. Types are taken as writes take them; a key with a null is not found. columns: of dim, by
    default all that are not in its primary key; they come after the left ones, each named prefix + name, and may be
    null. how: "left": rows whose key is not found have nulls there; "inner": they are left out.

    partitions: "max_pt()" reads the newest partition of dim only, "max_two_pt()" the two newest, "dt=1;dt=2" these;
    then `on` is the primary key without the partition columns, and of a key that is in two the newer one's row counts.
    snapshot_id: by default the newest. It is chosen here, and kept from expiry until the iterator ends; arguments are
    checked here too. Raises InvalidError, NotFoundError, and what lookups raise.
    """
    table = opened(dim)
    given = JoinArguments(on, columns, how, prefix, partitions)
    left, rows = _left(batches)
    schema, held = _snapshot(table, snapshot_id)
    join = _join(table, plan_join(left, schema, given))
    pin = NO_SNAPSHOT if held is None else pin_of(held[0], join.partitions_of)
    kept = keep_join(join)
    return _held(PinnedJoin(join, pin, kept).joined(rows), kept.lookups, held and held[1])


lookup_join.__module__ = "widetable"


def opened(dim: Any) -> OpenTable:
    """The argument `dim`: a table, or its path."""
    if isinstance(dim, OpenTable):
        return dim
    found = path(dim, "dim")
    located, root = locate(found)
    table = OpenTable(root, located)
    table._committer.schemas.latest()
    return table


def _left(batches: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if isinstance(batches, pa.RecordBatch):
        batches = [batches]
    if isinstance(batches, pa.Table):
        batches = batches.to_reader()
    if isinstance(batches, pa.RecordBatchReader):
        return batches.schema, batches
    try:
        rows = iter(batches)
    except TypeError:
        raise refused(batches, "batches", "a RecordBatchReader, Table, or RecordBatches") from None
    first = next(rows, None)
    if first is None:
        raise InvalidError(
            "batches",
            found="no batch, so no columns",
            expected="one batch or more, of no rows perhaps, or a reader or table",
            action="Give a RecordBatchReader, which has a schema without batches.",
        )
    schema = _batch(first, None).schema
    return schema, (_batch(each, schema) for each in chain([first], rows))


def _batch(value: Any, schema: pa.Schema | None) -> pa.RecordBatch:
    if not isinstance(value, pa.RecordBatch):
        raise refused(value, "batches", "RecordBatches")
    if schema is not None and value.schema != schema:
        raise InvalidError(
            "batches",
            found=f"a batch with the columns {value.schema.names} after one with {schema.names}, or other types",
            expected="batches of one schema",
            action="Cast them to one schema.",
        )
    return value


def _snapshot(
    table: OpenTable, snapshot_id: Any
) -> tuple[TableSchema, tuple[Snapshot, ReadLease] | None]:
    if snapshot_id is None:
        return table.schema, hold_newest(table._file_io, table._paths, renews=True)
    snapshot = load_snapshot(table._committer.snapshots, snapshot_id)
    lease = hold(table._file_io, table._paths, snapshot.id)
    return table._committer.schemas.load(snapshot.schema_id), (snapshot, lease)


def _held(
    joined: Iterator[pa.RecordBatch], lookups: KeptLookups, lease: ReadLease | None
) -> Iterator[pa.RecordBatch]:
    """lease: goes with the iterator, if it is never begun."""
    try:
        yield from joined
    finally:
        lookups.close()
        if lease is not None:
            lease.release()


@dataclass(frozen=True)
class LookupJoin:
    """A plan and the table that it asks. Picklable. identity: of the table that it was made for."""

    table: OpenTable
    plan: JoinPlan
    identity: str

    def pin(self, batch: PinnedBatch) -> LookupPin:
        """What the micro-batch joins, now and whenever it comes again."""
        retention = self.table.schema.typed_options.get(opt.LOOKUP_PIN_RETENTION)
        return pin_batch(
            self.table._file_io, self.table._paths, batch, self.partitions_of, retention
        )

    def hold_newest(self) -> tuple[LookupPin, ReadLease | None]:
        """The newest snapshot, with a lease that is not renewed."""
        held = hold_newest(self.table._file_io, self.table._paths)
        if held is None:
            return NO_SNAPSHOT, None
        return pin_of(held[0], self.partitions_of), held[1]

    def partitions_of(self, snapshot: Snapshot) -> tuple[bytes, ...] | None:
        """Those that are joined, newest first; None for all."""
        if self.plan.partitions is None:
            return None
        committer = self.table._committer
        entries = committer.live_files.live_entries(snapshot)
        schema = committer.schemas.load(snapshot.schema_id)
        return self.plan.partitions.chosen({e.bucket_id.partition for e in entries}, schema)


def new_lookup_join(
    left: pa.Schema, dim: Any, given: JoinArguments, same_name: SameName = str
) -> LookupJoin:
    """For left rows of that schema, with the newest columns of the dim."""
    table = opened(dim)
    return _join(table, plan_join(left, table.schema, given, same_name))


def _join(table: OpenTable, plan: JoinPlan) -> LookupJoin:
    return LookupJoin(table, plan, table._committer.identity)


class KeptJoin(NamedTuple):
    """What joins with a table leave to later ones: open files, and how many left rows are looked up at once, as is
    learned from what was found.
    """

    lookups: KeptLookups
    budget: RowBudget


def keep_join(join: LookupJoin) -> KeptJoin:
    """Nothing yet."""
    return KeptJoin(KeptLookups(join.table), RowBudget(_BYTES, _FIRST_ROWS, _MOST_ROWS))


class PinnedJoin:
    """A join with one snapshot, which the caller holds. kept: of others before it, with the same columns."""

    def __init__(
        self,
        join: LookupJoin,
        pin: LookupPin,
        kept: KeptJoin | None = None,
    ) -> None:
        check_identity(join.table._file_io, join.table._paths, join.identity)
        self._plan = join.plan
        self._pin = pin
        self._lookups, self._budget = kept or keep_join(join)
        if pin.snapshot_id:
            self._schema = join.table._committer.schemas.load(pin.schema_id)
            self._asked = _asked(self._plan, self._schema)

    def joined(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the batches with the dim's columns, in batches of the sizes that came, or less."""
        for gathered in self._gathered(batches):
            yield from self._join(gathered)

    def _gathered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        gathered: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, self._budget.rows - rows)
                gathered.append(part)
                start += part.num_rows
                rows += part.num_rows
                size_bytes += part.nbytes
                if rows >= self._budget.rows or size_bytes >= _BYTES:
                    yield gathered
                    gathered, rows, size_bytes = [], 0, 0
        if gathered:
            yield gathered

    def _join(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        keys = [
            pa.chunked_array([key_column(batch.column(name), name, field) for batch in batches])
            for name, field in plan.keys
        ]
        retracted = self._retracted(batches)
        found, hits = self._found(pa.Table.from_arrays(keys, [name for name, _ in plan.keys]))
        start = 0
        for batch in batches:
            own = slice(start, start + batch.num_rows)
            start += batch.num_rows
            added = [column.slice(own.start, batch.num_rows) for column in found]
            yield from self._rows(batch, added, hits[own], retracted[own])

    def _rows(
        self, batch: pa.RecordBatch, added: list[pa.Array], hits: _Mask, retracted: _Mask
    ) -> Iterator[pa.RecordBatch]:
        if retracted.any():
            blank = pa.array(retracted)
            added = [_nulled(column, blank) for column in added]
        schema = pa.schema([*batch.schema, *self._plan.added], batch.schema.metadata)
        rows = pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)
        if self._plan.is_inner and not (kept := hits | retracted).all():
            rows = rows.filter(pa.array(kept))
        if rows.num_rows:
            yield rows

    def _retracted(self, batches: Sequence[pa.RecordBatch]) -> _Mask:
        name = self._plan.kind_column
        if name is None:
            return np.zeros(sum(batch.num_rows for batch in batches), np.bool_)
        return np.concatenate([is_retraction(row_kinds(b.column(name), name)) for b in batches])

    def _found(self, keys: pa.Table) -> tuple[list[pa.Array], _Mask]:
        """The added columns, one row per key, and which keys were found."""
        rows = keys.num_rows
        if not self._pin.snapshot_id or self._pin.partitions == ():
            return [pa.nulls(rows, f.type) for f in self._plan.added], np.zeros(rows, np.bool_)
        if not self._asked.names:
            return [pa.nulls(rows, f.type) for f in self._plan.added], np.ones(rows, np.bool_)
        keys = keys.rename_columns(self._asked.keys)
        if self._pin.partitions is None:
            found = self._looked_up(keys)
        else:
            found = self._in_partitions(keys, self._pin.partitions)
        hits = self._hits(found)
        columns = [
            pa.nulls(rows, arrow_type(field.type))
            if name is None
            else safe_cast(one_array(found.column(name)), field, arrow_type(field.type))
            for field, name in zip(self._plan.columns, self._asked.columns, strict=True)
        ]
        return columns, hits

    def _in_partitions(self, keys: pa.Table, partitions: Sequence[bytes]) -> pa.Table:
        """Of each key the row in the first of these that has one."""
        found = None
        for partition in partitions:
            left = np.arange(keys.num_rows) if found is None else np.flatnonzero(~self._hits(found))
            if not len(left):
                break
            asked = keys if found is None else keys.take(pa.array(left))
            for name, value in partition_values(partition, self._schema).items():
                asked = asked.append_column(name, pa.repeat(value, len(left)))
            rows = self._looked_up(asked)
            if found is None:
                found = rows
            else:
                places = np.arange(keys.num_rows)
                places[left] = keys.num_rows + np.arange(len(left))
                found = pa.concat_tables([found, rows]).take(pa.array(places))
        assert found is not None
        return found

    def _looked_up(self, keys: pa.Table) -> pa.Table:
        found = self._lookups.rows(keys, self._asked.names, self._pin.snapshot_id)
        self._budget.saw(found)
        return found

    def _hits(self, found: pa.Table) -> _Mask:
        if self._asked.mark is None:
            return np.ones(found.num_rows, np.bool_)
        valid = found.column(self._asked.mark).is_valid()
        return np.asarray(valid.to_numpy(), np.bool_)


@dataclass(frozen=True)
class _AskedColumns:
    """Names in the snapshot. keys, columns: in the plan's order, None for a column that it does not have yet. mark: a
    key column that tells what was found, None where that does not matter. names: all that are looked up.
    """

    keys: list[str]
    columns: list[str | None]
    mark: str | None

    @property
    def names(self) -> tuple[str, ...]:
        wanted = [*self.columns, self.mark]
        return tuple(dict.fromkeys(name for name in wanted if name is not None))


def _asked(plan: JoinPlan, schema: TableSchema) -> _AskedColumns:
    name_of = {field.id: field.name for field in schema.fields}
    for field in (*plan.columns, *(field for _, field in plan.keys)):
        if field.id not in name_of and schema.id >= plan.schema_id:
            raise NotFoundError(
                f"column {field.name!r} of the joined table",
                found=f"no such column since its schema {schema.id}",
                expected=f"the columns that it had in schema {plan.schema_id}",
                action="Start the query anew, with other columns=.",
            )
    needs_hits = plan.is_inner or plan.partitions is not None
    keys = [name_of[field.id] for _, field in plan.keys]
    columns = [name_of.get(field.id) for field in plan.columns]
    return _AskedColumns(keys, columns, schema.trimmed_primary_key[-1] if needs_hits else None)


def _nulled(column: pa.Array, where: pa.Array) -> pa.Array:
    """Nulls in these rows."""
    places = np.where(np.asarray(where), -1, np.arange(len(column)))
    return column.take(pa.array(places, mask=places < 0))
