"""A lookup join with one moment of the joined table. In: batches of left rows. Out: the rows with its columns added.

    left rows ─► gathered ─► their keys ─► rows of the pinned snapshot ─► one row out per match, in the left order

By whole keys a left row has one match at most (`LookupView.lookup`). By a part of the key or by an index it may have
many (`LookupView.matches`): equal keys are looked up once, and the matches are spread over the left rows in pieces of
bounded size. The number of left rows per lookup starts small and adapts to the sizes of the results.

A snapshot has the columns of its time. They are matched by column id, which never changes: a renamed column is read,
a column that the snapshot does not have yet is null, a column that was dropped is an error. Raises NotFoundError for
such a column and for a snapshot that has expired, InvalidError for left rows that make no keys, and what lookups raise.

    column of the dim    planned (schema 3)    snapshot of schema 2    snapshot of schema 5
    id 4                 `city`                `town`: read as city    `city`
    id 6, added in 3     `zip`                 missing: null           dropped: NotFoundError

Masks and numbers run over all gathered left rows, one batch after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.commit.holds.pin_file import LookupPin
from widetable.derive.changes.join_partitions import partition_values
from widetable.derive.lookups.join_plan import JoinPlan, key_column
from widetable.derive.lookups.joined_tables import INDEX, LookupJoin
from widetable.derive.lookups.planned_column import planned_column
from widetable.errors import NotFoundError
from widetable.format.row_budget import BATCH_BYTES, RowBudget, memory_bytes, row_bytes, rows_within
from widetable.kernels.arrow_buffers import one_array
from widetable.kernels.gather import take_rows
from widetable.kernels.row_widths import check_capacity_of_rows
from widetable.messages.error_code import ErrorCode
from widetable.operations.queries.kept_lookups import KeptLookups, PinnedSnapshot
from widetable.operations.queries.lookup_view import Matches
from widetable.operations.queries.row_gather import TooManyBytesError
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import arrow_type
from widetable.write.write_batch import row_kinds

_Mask: TypeAlias = npt.NDArray[np.bool_]
# It gets left rows and a mask of those with a match; it returns a mask of those without a match to leave out now.
LeaveOut: TypeAlias = Callable[[pa.RecordBatch, _Mask], _Mask]
_Numbers: TypeAlias = npt.NDArray[np.int64]

# The number of left rows per lookup. One lookup of 100,000 keys takes much less time than ten of 10,000.
_MAX_ROWS: Final = 131_072
_FIRST_ROWS: Final = 16_384
# The number of keys per lookup, if a key may have many rows: how many is unknown before the first lookup.
_MAX_KEYS: Final = 16_384
_FIRST_KEYS: Final = 256
# The limit for the gathered left rows, and the goal for the rows that a lookup returns.
_BYTES: Final = 64 << 20


class KeptJoin(NamedTuple):
    """What a join passes on to later joins with the same table: open files, and the learned lookup size."""

    lookups: KeptLookups
    keys: KeptLookups | None
    budget: RowBudget

    def close(self) -> None:
        """Close all files. It may be called more than once."""
        self.lookups.close()
        if self.keys is not None:
            self.keys.close()


def keep_join(join: LookupJoin) -> KeptJoin:
    """Make what the joins of one plan share, one after the other; the caller closes it.

    Parameters
    ----------
    join : LookupJoin
        The plan.

    Returns
    -------
    KeptJoin
        An empty store; two joins cannot use it at the same time.
    """
    rows = (_FIRST_KEYS, _MAX_KEYS) if join.plan.has_many else (_FIRST_ROWS, _MAX_ROWS)
    index = None if join.index is None else KeptLookups(join.index)
    return KeptJoin(KeptLookups(join.table), index, RowBudget(_BYTES, *rows))


class PinnedJoin:
    """A join with one moment, which the caller holds. kept: the KeptJoin of earlier joins with the same columns.

    Without `kept` the files stay open until they are collected. Raises InvalidError for a table that was dropped and
    created again. A pin without a snapshot (id 0) belongs to an empty table: no row has a match.
    """

    def __init__(
        self,
        join: LookupJoin,
        pin: LookupPin,
        kept: KeptJoin | None = None,
    ) -> None:
        join.check_identities()
        self._plan = join.plan
        self._pin = pin
        self._snapshot = PinnedSnapshot(pin.snapshot_id, pin.time_millis)
        self._lookups, self._keys, self._budget = kept or keep_join(join)
        if pin.snapshot_id:
            self._schema = join.table._committer.schemas.load(pin.schema_id)
            self._request = _requested_columns(self._plan, self._schema, join.late is not None)

    def joined(
        self, batches: Iterable[pa.RecordBatch], leave_out: LeaveOut | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the batches with the dim's columns.

        The output batches are as large as the input's, or smaller; if a row may have many matches, their size is
        bounded. leave_out is called once for each left row, batch by batch, before any row of the batch is output; it
        may only leave out rows without a match. Empty batches are skipped.
        """
        for gathered in self._gathered(batches):
            yield from self._join(gathered, leave_out)

    def _gathered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """Yield the left rows of each lookup: many small batches together, a large one in slices.

        The budget may change with each lookup, so it is read for each slice.
        """
        gathered: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, self._budget.rows - rows)
                gathered.append(part)
                start += part.num_rows
                rows += part.num_rows
                size_bytes += memory_bytes(part)
                if rows >= self._budget.rows or size_bytes >= _BYTES:
                    yield gathered
                    gathered, rows, size_bytes = [], 0, 0
        if gathered:
            yield gathered

    def _join(
        self, batches: Sequence[pa.RecordBatch], leave_out: LeaveOut | None
    ) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        keys = [
            pa.chunked_array([key_column(batch.column(name), name, field) for batch in batches])
            for name, field in plan.keys
        ]
        retracted = self._retracted(batches)
        if self._plan.has_many:
            yield from self._join_many(batches, keys, retracted, leave_out)
            return
        try:
            names = [name for name, _ in plan.keys]
            columns, hits = self._matched_columns(pa.Table.from_arrays(keys, names))
        except TooManyBytesError:
            halves = _halves(batches)
            if halves is None:
                raise
            for half in halves:
                yield from self._join(half, leave_out)
            return
        start = 0
        for batch in batches:
            own = slice(start, start + batch.num_rows)
            start += batch.num_rows
            added = [column.slice(own.start, batch.num_rows) for column in columns]
            kept = self._kept(batch, hits[own] | retracted[own], leave_out)
            yield from self._rows(batch, added, kept, retracted[own])

    def _kept(self, batch: pa.RecordBatch, hits: _Mask, leave_out: LeaveOut | None) -> _Mask:
        """Return bool[n]: the left rows that are output. hits: rows with a match, and retractions."""
        missed = np.zeros(len(hits), np.bool_) if leave_out is None else leave_out(batch, hits)
        return hits if self._plan.is_inner else ~missed

    def _join_many(
        self,
        batches: Sequence[pa.RecordBatch],
        keys: list[pa.ChunkedArray],
        retracted: _Mask,
        leave_out: LeaveOut | None,
    ) -> Iterator[pa.RecordBatch]:
        names = [name for name, _ in self._plan.keys]
        matches = self._matches(pa.Table.from_arrays(keys, names))
        counts = np.where(retracted, 0, matches.counts)
        start = 0
        for batch in batches:
            own = slice(start, start + batch.num_rows)
            start += batch.num_rows
            part = Matches(matches.rows, matches.firsts[own], counts[own])
            kept = self._kept(batch, (part.counts > 0) | retracted[own], leave_out)
            schema = pa.schema([*batch.schema, *self._plan.added], batch.schema.metadata)
            for lefts, places in _spread(batch, part, kept):
                yield from _taken(batch, part.rows, lefts, places, schema)

    def _matches(self, keys: pa.Table) -> Matches:
        """Look up the matches of each key; their rows have the added columns."""
        count = keys.num_rows
        if not self._pin.snapshot_id:
            rows = pa.table([pa.nulls(0, f.type) for f in self._plan.added], self._names)
            return Matches(rows, np.zeros(count, np.int64), np.zeros(count, np.int64))
        if self._keys is None:
            keys = keys.rename_columns(self._request.keys)
            matches = self._lookups.matches(keys, self._request.names, self._snapshot)
        else:
            matches = self._by_index(self._keys, keys)
        self._budget.saw(matches.rows, count)
        columns = self._columns(matches.rows)
        return matches._replace(rows=pa.table(columns, self._names))

    def _by_index(self, index: KeptLookups, keys: pa.Table) -> Matches:
        """Look up keys by the values, then rows by the keys. Each key has a row, because both snapshots fit."""
        assert self._plan.index is not None
        keys = keys.rename_columns(list(self._plan.index.columns))
        whole = self._schema.primary_keys
        pinned = self._pin.other(INDEX)
        snapshot = PinnedSnapshot(pinned.snapshot_id, pinned.time_millis)
        matches = index.matches(keys, whole, snapshot)
        if set(self._request.names) <= set(whole):
            return matches
        rows = self._lookups.rows(matches.rows, self._request.names, self._snapshot)
        return matches._replace(rows=rows)

    @property
    def _names(self) -> list[str]:
        return [str(number) for number in range(len(self._plan.added))]

    def _rows(
        self, batch: pa.RecordBatch, added: list[pa.Array], kept: _Mask, retracted: _Mask
    ) -> Iterator[pa.RecordBatch]:
        if retracted.any():
            blank = pa.array(retracted)
            added = [_nulled(column, blank) for column in added]
        schema = pa.schema([*batch.schema, *self._plan.added], batch.schema.metadata)
        rows = pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)
        if not kept.all():
            rows = take_rows(rows, np.flatnonzero(kept))
        if rows.num_rows:
            yield rows

    def _retracted(self, batches: Sequence[pa.RecordBatch]) -> _Mask:
        name = self._plan.kind_column
        if name is None:
            return np.zeros(sum(batch.num_rows for batch in batches), np.bool_)
        return np.concatenate([is_retraction(row_kinds(b.column(name), name)) for b in batches])

    def _matched_columns(self, keys: pa.Table) -> tuple[list[pa.Array], _Mask]:
        """Return the added columns, one row per key, and bool[n]: the keys that have a row."""
        count = keys.num_rows
        if not self._pin.snapshot_id or self._pin.partitions == ():
            return [pa.nulls(count, f.type) for f in self._plan.added], np.zeros(count, np.bool_)
        if not self._request.names:
            return [pa.nulls(count, f.type) for f in self._plan.added], np.ones(count, np.bool_)
        keys = keys.rename_columns(self._request.keys)
        if self._pin.partitions is None:
            rows = self._lookup_rows(keys)
        else:
            rows = self._lookup_in_partitions(keys, self._pin.partitions)
        return self._columns(rows), self._hits(rows)

    def _columns(self, rows: pa.Table) -> list[pa.Array]:
        """Return the added columns of rows, with the planned types."""
        is_later = self._schema.id >= self._plan.schema_id
        return [
            pa.nulls(rows.num_rows, arrow_type(field.type))
            if name is None
            else planned_column(
                one_array(rows.column(name)), self._schema.field(name), field, is_later=is_later
            )
            for field, name in zip(self._plan.columns, self._request.columns, strict=True)
        ]

    def _lookup_in_partitions(self, keys: pa.Table, partitions: Sequence[bytes]) -> pa.Table:
        """Return for each key the row in the first partition that has one. partitions: at least one, newest first.

        Each partition is read for the keys without a row in the partitions before it. With keys 1, 2, 3 of which the
        newest partition has 2, the second one is read for 1 and 3.
        """
        result = None
        for partition in partitions:
            left = (
                np.arange(keys.num_rows) if result is None else np.flatnonzero(~self._hits(result))
            )
            if not len(left):
                break
            request = keys if result is None else keys.take(pa.array(left))
            for name, value in partition_values(partition, self._schema).items():
                request = request.append_column(name, pa.repeat(value, len(left)))
            rows = self._lookup_rows(request)
            if result is None:
                result = rows
            else:
                places = np.arange(keys.num_rows)
                places[left] = keys.num_rows + np.arange(len(left))
                result = pa.concat_tables([result, rows]).take(pa.array(places))
        assert result is not None
        return result

    def _lookup_rows(self, keys: pa.Table) -> pa.Table:
        rows = self._lookups.rows(keys, self._request.names, self._snapshot)
        self._budget.saw(rows)
        return rows

    def _hits(self, rows: pa.Table) -> _Mask:
        if self._request.mark is None:
            return np.ones(rows.num_rows, np.bool_)
        valid = rows.column(self._request.mark).is_valid()
        return np.asarray(valid.to_numpy(), np.bool_)


@dataclass(frozen=True)
class _RequestedColumns:
    """The names in the snapshot of the columns to look up.

    keys, columns: in the plan's order, None for a column that the snapshot does not have yet; no keys for a lookup by
    an index. mark: a key column whose validity marks the keys that have a row. None for a left join by a whole key,
    where a key without a row has nulls either way. names: all columns that are looked up.
    """

    keys: list[str]
    columns: list[str | None]
    mark: str | None

    @property
    def names(self) -> tuple[str, ...]:
        columns = [*self.columns, self.mark]
        return tuple(dict.fromkeys(name for name in columns if name is not None))


def _requested_columns(plan: JoinPlan, schema: TableSchema, needs_hits: bool) -> _RequestedColumns:
    name_of = {field.id: field.name for field in schema.fields}
    for field in (*plan.columns, *(field for _, field in plan.keys)):
        if field.id not in name_of and schema.id >= plan.schema_id:
            raise NotFoundError(
                f"column {field.name!r} of the joined table",
                found=f"no such column since its schema {schema.id}",
                expected=f"the columns that it had in schema {plan.schema_id}",
                action="Start the query again, with other columns=.",
                code=ErrorCode.COLUMN_NOT_FOUND,
            )
    needs_hits = needs_hits or plan.is_inner or plan.partitions is not None or plan.is_prefix
    # An index uses the current names; the snapshot may not have these columns yet.
    keys = [] if plan.index is not None else [name_of[field.id] for _, field in plan.keys]
    columns = [name_of.get(field.id) for field in plan.columns]
    return _RequestedColumns(keys, columns, schema.trimmed_primary_key[-1] if needs_hits else None)


def _halves(batches: Sequence[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], ...] | None:
    """Split the rows in two parts; return None for a single row."""
    if len(batches) > 1:
        return list(batches[: len(batches) // 2]), list(batches[len(batches) // 2 :])
    (batch,) = batches
    middle = batch.num_rows // 2
    return ([batch.slice(0, middle)], [batch.slice(middle)]) if middle else None


def _nulled(column: pa.Array, where: pa.Array) -> pa.Array:
    """Return the column with nulls where `where` is true."""
    places = np.where(np.asarray(where), -1, np.arange(len(column)))
    return column.take(pa.array(places, mask=places < 0))


def _spread(
    batch: pa.RecordBatch, matches: Matches, kept: _Mask
) -> Iterator[tuple[_Numbers, _Numbers]]:
    """Yield the left rows, one for each match, and the places of the matches in their rows.

    A kept row without a match occurs once, with the place -1.

        left rows p, q, r    firsts 1, 0, 0    counts 2, 0, 1
        left join            p p q r           places 1, 2, -1, 0
        inner join           p p r             places 1, 2, 0

    Pieces have about BATCH_BYTES; a left row with many matches may be in several.
    """
    counts = np.maximum(matches.counts, kept)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    most = rows_within(BATCH_BYTES, row_bytes(batch) + row_bytes(matches.rows))
    for start in range(0, total, most):
        numbers = np.arange(start, min(start + most, total))
        lefts = np.searchsorted(ends, numbers, "right")
        places = matches.firsts[lefts] + numbers - (ends - counts)[lefts]
        yield lefts, np.where(matches.counts[lefts] > 0, places, -1)


def _taken(
    batch: pa.RecordBatch, rows: pa.Table, lefts: _Numbers, places: _Numbers, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield these left rows, each with the row at its place.

    If one array cannot hold them, because some rows are much wider than most, they are yielded in halves.
    """
    nowhere = places < 0
    at = pa.array(places, mask=nowhere) if nowhere.any() else pa.array(places)
    try:
        check_capacity_of_rows(rows, places)
        left = take_rows(batch, lefts).columns
        added = [one_array(column.take(at)) for column in rows.columns]
    except pa.ArrowInvalid:
        middle = len(lefts) // 2
        if not middle:
            raise
        for half in (slice(0, middle), slice(middle, None)):
            yield from _taken(batch, rows, lefts[half], places[half], schema)
    else:
        yield pa.RecordBatch.from_arrays([*left, *added], schema=schema)
