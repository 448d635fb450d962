"""The rows of one commit: what a round, or a chunk of the full copy, does to a table, as typed batches with row kinds.

    round     -D for each live key, if there was a truncate ─► last states: typed, values looked up, without bad rows
    chunk     its rows as they are ─► -D for each live key of its range that the new read lacks

Batches are made while the writer takes them, so no more than a slice is in memory. Rows that cannot be applied are in
the table of errors when the last batch is taken, which is before the commit: a crash in between adds no second one.

A value that the log does not carry is looked up in the table, as it is before the commit. If the table has no such row
either, a chunk that is still to be read brings the row, and it is left out here. For other rows `Reread` gives the row
as the source has it now; what it does not give is an error row, never a null.
Raises what reading the table and writing errors raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable import Table
from widetable.connector import ROW_KIND_COLUMN, now_millis
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.applying.last_states import DELETED, LastStates, StateSlice
from widetable_cdc.applying.row_events import Indices, Mask
from widetable_cdc.applying.typed_rows import TypedRows, Types, typed_rows
from widetable_cdc.columns.target_columns import TargetColumns
from widetable_cdc.columns.typed_expression import SourceRows
from widetable_cdc.log.changes import Transactions

# Keys, and the transactions that changed them: returns rows of the target's columns that the source has, seeing them.
Reread = Callable[[pa.RecordBatch, npt.NDArray[np.uint32]], pa.Table]
# Keys of the target: returns which of them a truncate leaves alone, because their chunk has seen it.
Spares = Callable[[pa.RecordBatch], Mask]
# Values of columns of the target, by name, for the rows with these numbers.
Kept = dict[str, tuple[Indices, pa.Array]]

_NO_VALUE = "the log does not carry the value, and neither the target nor the source has the row"


@dataclass(frozen=True)
class Round:
    """What one table gets in a round that ends at an LSN. types: of the columns, by their names in the target.

    awaits: returns of which keys a chunk will bring the rows, with all of these changes. completes: the table has all
    changes up to the LSN then; not while it is still copied. columns: of the target; None for those of the states.
    transactions: of the round, for columns that say when a row was changed.
    """

    states: LastStates
    types: Types
    lsn: int
    errors: ErrorTable
    spares: Spares | None = None
    reread: Reread | None = None
    completes: bool = True
    awaits: Spares | None = None
    columns: TargetColumns | None = None
    transactions: Transactions | None = None

    def commit_micros(self, end_lsns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """Return when transactions were committed, by the ends of their changes in the log."""
        if self.transactions is None:
            return None
        return self.transactions.commit_micros[
            np.searchsorted(self.transactions.end_lsns, end_lsns)
        ]


@dataclass
class RoundRows:
    """Makes the batches of a round for a table. sequence: the column of a group that takes the LSN; None for others."""

    table: Table
    round: Round
    sequence: str | None = None
    _key: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        """Read the key of the table."""
        self._key = self.table.schema.primary_keys

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, in the order in which the commit must take them."""
        states = self.round.states
        if states.truncate_lsn is not None:
            yield from self._truncated(states.truncate_lsn)
        for one in states.slices():
            batch = self._applicable(one)
            if batch.num_rows:
                yield batch

    def _truncated(self, lsn: int) -> Iterator[pa.RecordBatch]:
        columns = self.round.columns
        names = self.round.states.events.names
        if columns is not None:
            names = tuple(name for name in columns.names if name not in self._key)
        for keys in live_keys(self.table, self.sequence, None if columns is None else columns.own):
            if self.round.spares is not None:
                keys = keys.filter(pa.array(~self.round.spares(keys)))
            if keys.num_rows:
                yield deletes(keys, names, self.table, self.sequence, lsn)

    def _applicable(self, states: StateSlice) -> pa.RecordBatch:
        """Return the rows of a slice that can be applied; the others go to the table of errors."""
        rows = typed_rows(states, self.round.types)
        values, lost, kept = self._completed(states, rows)
        lost &= ~rows.bad
        awaited = self._awaited(rows, lost)
        lost &= ~awaited
        reasons = dict(rows.reasons)
        again = self._reread(states, rows, lost)
        is_again = np.zeros(len(states), dtype=np.bool_)
        if again is not None:
            values, is_again = _replaced(rows.keys, values, again, lost)
        reasons |= dict.fromkeys(np.flatnonzero(lost & ~is_again).tolist(), _NO_VALUE)
        self.round.errors.write(states, reasons)
        columns = self._written(states, {**rows.keys, **values})
        for name, (at, column) in kept.items():
            columns[name] = replaced(columns[name], at, column)
        if self.sequence is not None:
            columns[self.sequence] = pa.array(states.end_lsns, pa.int64())
        columns[ROW_KIND_COLUMN] = states.kinds
        batch = pa.RecordBatch.from_pydict(columns)
        is_good = ~rows.bad & ~awaited & ~(lost & ~is_again)
        return batch if is_good.all() else batch.filter(pa.array(is_good))

    def _written(self, states: StateSlice, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the columns of the target for rows with the columns of the source."""
        if self.round.columns is None:
            return columns
        micros = self.round.commit_micros(states.end_lsns)
        rows = SourceRows(columns, len(states), now_millis(), micros)
        is_delete = np.asarray(pc.equal(states.kinds, DELETED))
        return self.round.columns.rows(rows, is_delete)

    def _target_keys(self, keys: Mapping[str, pa.Array]) -> Mapping[str, pa.Array]:
        columns = self.round.columns
        return keys if columns is None else columns.keys(keys)

    def _carriers(self, name: str) -> tuple[str, ...]:
        """Return the columns of the target that have an unchanged value of a column of the source."""
        columns = self.round.columns
        return (name,) if columns is None else columns.carriers(name)

    def _completed(
        self, states: StateSlice, rows: TypedRows
    ) -> tuple[dict[str, pa.Array], Mask, Kept]:
        """Return the values with those that the target has, which rows need one that it does not have, and computed
        values that stay: those of columns of the source that the target itself does not have.
        """
        values = dict(rows.values)
        is_open: Mask = np.zeros(len(states), dtype=np.bool_)
        for mask in states.unresolved.values():
            is_open |= mask
        lost: Mask = np.zeros(len(states), dtype=np.bool_)
        at = np.flatnonzero(is_open)
        kept: Kept = {}
        if not len(at):
            return values, lost, kept
        origins = pa.RecordBatch.from_pydict(
            dict(
                self._target_keys(
                    {name: column.take(pa.array(at)) for name, column in rows.origins.items()}
                )
            )
        )
        names = [each for name in states.unresolved for each in self._carriers(name)]
        # A row of a wide table may be there by other groups alone: a group that has it has a sequence.
        sign = self._key[0] if self.sequence is None else self.sequence
        there = self.table.lookup(origins, list(dict.fromkeys([sign, *names]))).combine_chunks()
        has_row = np.asarray(there.column(sign).is_valid())
        if self.round.states.truncate_lsn is not None:
            spares = self.round.spares
            has_row &= spares(origins) if spares is not None else False
        lost[at[~has_row]] = True
        for name, mask in states.unresolved.items():
            filled = mask[at] & has_row
            for carrier in self._carriers(name):
                looked_up = _one_array(there.column(carrier)).filter(pa.array(filled))
                if carrier == name:
                    values[name] = replaced(values[name], at[filled], looked_up)
                else:
                    kept[carrier] = at[filled], looked_up
        return values, lost, kept

    def _awaited(self, rows: TypedRows, lost: Mask) -> Mask:
        """Return which of the lost rows a chunk will bring."""
        awaited = np.zeros(len(lost), dtype=np.bool_)
        if self.round.awaits is not None and lost.any():
            awaited[lost] = self.round.awaits(_keys_of(rows, lost))
        return awaited

    def _reread(self, states: StateSlice, rows: TypedRows, lost: Mask) -> pa.Table | None:
        if self.round.reread is None or not lost.any():
            return None
        return self.round.reread(_keys_of(rows, lost), states.xids[lost])


def _keys_of(rows: TypedRows, mask: Mask) -> pa.RecordBatch:
    chosen = pa.array(mask)
    return pa.RecordBatch.from_pydict({n: column.filter(chosen) for n, column in rows.keys.items()})


def live_keys(
    table: Table, sequence: str | None, filter: pc.Expression | str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the keys that a table has, of a group only those that the group has. filter: only keys that match."""
    if sequence is not None:
        there = pc.field(sequence).is_valid()
        filter = there if filter is None else filter & there
    scan = table.scan(columns=list(table.schema.primary_keys), filter=filter)
    yield from scan.to_batches()


def deletes(
    keys: pa.RecordBatch,
    names: Iterable[str],
    table: Table,
    sequence: str | None = None,
    lsn: int | None = None,
) -> pa.RecordBatch:
    """Return a -D for each key. names: the other columns, which are null. sequence: the column that takes the LSN."""
    types = {each.name: each.type for each in table.arrow_schema}
    columns = {name: keys.column(name) for name in table.schema.primary_keys}
    columns |= {name: pa.nulls(keys.num_rows, types[name]) for name in names}
    if sequence is not None:
        columns[sequence] = pa.repeat(pa.scalar(lsn, pa.int64()), keys.num_rows)
    columns[ROW_KIND_COLUMN] = pa.repeat(pa.scalar(DELETED), keys.num_rows)
    return pa.RecordBatch.from_pydict(columns)


def replaced(values: pa.Array, at: Indices, others: pa.Array) -> pa.Array:
    """Return the values with others at these places. Values of all types can be replaced, nested ones too."""
    if not len(at):
        return values
    index = np.arange(len(values))
    index[at] = len(values) + np.arange(len(at))
    return pa.concat_arrays([values, others.cast(values.type)]).take(pa.array(index))


def _replaced(
    keys: Mapping[str, pa.Array], values: Mapping[str, pa.Array], again: pa.Table, lost: Mask
) -> tuple[dict[str, pa.Array], Mask]:
    """Return the values with those of rows that were read again, and which of the lost rows there are."""
    at = np.flatnonzero(lost)
    names = list(keys)
    wanted = pa.table({**{name: keys[name].take(pa.array(at)) for name in names}, "_at": at})
    rows = again.select(names).append_column("_row", pa.array(np.arange(again.num_rows)))
    rows = rows.cast(
        pa.schema([*(f for f in wanted.schema if f.name in names), ("_row", pa.int64())])
    )
    joined = wanted.join(rows, keys=names, join_type="inner")
    places, sources = np.asarray(joined["_at"]), np.asarray(joined["_row"])
    there: Mask = np.zeros(len(lost), dtype=np.bool_)
    there[places] = True
    after = {
        name: replaced(column, places, _one_array(again.column(name)).take(pa.array(sources)))
        for name, column in values.items()
    }
    return after, there


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
