"""The rows of one commit: the last state of each key as typed batches with row kinds, and what cannot be applied.

    changes ─► events of keys ─► last states ─► values of the columns' types ─► values looked up ─► batches
                                                        └──────► bad rows ◄──────────┘

After a truncate comes a -D for each row that the table has, then the states behind it. A value that Debezium did not
send is taken from the row before, from an earlier change of the batch (`last_states`), or from the table as it is
before the commit. It is never null and never a placeholder: a row without it is bad. Batches are made while the writer
takes them. Raises what reading the table raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable import Table
from widetable.connector import ROW_KIND_COLUMN
from widetable_cdc.applying.last_states import DELETED, StateSlice, last_states
from widetable_cdc.applying.row_events import row_events
from widetable_cdc.debezium.bad_records import bad_records
from widetable_cdc.debezium.change_reader import Changes
from widetable_cdc.debezium.json_kernels import Longs, Mask
from widetable_cdc.debezium.json_texts import texts_of
from widetable_cdc.debezium.last_delete import rows_before
from widetable_cdc.debezium.value_cast import MarkedValues
from widetable_cdc.debezium.value_form import ValueForm, assumed_form, value_form
from widetable_cdc.debezium.value_reader import read_values
from widetable_cdc.log.changes import Kind

_LETTERS = {"+I": "c", "+U": "u", "-D": "d"}


@dataclass
class StateRows:
    """Makes the batches of a commit. decimals: as of `assumed_form`. sequence: the column that takes the position in
    the source, if any. bad: the rows that cannot be applied, after the last batch was taken.
    """

    table: Table
    changes: Changes
    decimals: str
    sequence: str | None = None
    bad: list[pa.Table] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Read the columns of the table."""
        self._schema = self.table.arrow_schema
        self._key = tuple(self.table.schema.primary_keys)
        named = {
            name: None
            for batch in self.changes.batches
            for name in batch.new.schema.names
            if name not in self._key
        }
        self._values = [name for name in self._schema.names if name in named]

    @property
    def has_truncate(self) -> bool:
        """Whether the batch holds a truncate."""
        return any((batch.kinds == Kind.TRUNCATE).any() for batch in self.changes.batches)

    @property
    def columns(self) -> list[str]:
        """The columns of the batches."""
        sequence = [] if self.sequence is None else [self.sequence]
        return [*self._key, *self._values, *sequence, ROW_KIND_COLUMN]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, in the order in which the commit must take them."""
        if self.has_truncate:
            yield from self._truncated()
        events = [row_events(batch, self._key) for batch in self.changes.batches]
        if events:
            for states in last_states(events).slices():
                rows = self._applicable(states)
                if rows.num_rows:
                    yield rows

    def _truncated(self) -> Iterator[pa.RecordBatch]:
        """Yield a -D for each row of the table, at the position of the last truncate."""
        kinds = np.concatenate([batch.kinds for batch in self.changes.batches])
        position = int(self.changes.positions[np.flatnonzero(kinds == Kind.TRUNCATE)[-1]])
        for keys in self.table.scan(columns=list(self._key)).to_batches():
            if keys.num_rows:
                columns = {name: keys.column(name) for name in self._key}
                kind = pa.repeat(pa.scalar(DELETED), keys.num_rows)
                yield self._batch(columns, kind, np.full(keys.num_rows, position))

    def _batch(
        self, columns: Mapping[str, pa.Array], kinds: pa.Array, positions: Longs
    ) -> pa.RecordBatch:
        """Return a batch of all columns; those that are missing are null."""
        rows = len(kinds)
        arrays = []
        for name in self.columns:
            if name == ROW_KIND_COLUMN:
                arrays.append(kinds)
            elif name == self.sequence:
                arrays.append(pa.array(positions, pa.int64()).cast(self._schema.field(name).type))
            elif name in columns:
                arrays.append(columns[name])
            else:
                arrays.append(pa.nulls(rows, self._schema.field(name).type))
        return pa.RecordBatch.from_arrays(arrays, names=self.columns)

    def _applicable(self, states: StateSlice) -> pa.RecordBatch:
        """Return the rows of a slice that can be applied, and note the others as bad."""
        forms = self._forms(states)
        columns: dict[str, pa.Array] = {}
        reasons: dict[int, str] = {}
        texts = {**states.keys, **{name: states.values[name] for name in self._values_of(states)}}
        for name, raw in texts.items():
            values, is_bad = self._cast(forms[name], raw, name)
            columns[name] = values
            for row in np.flatnonzero(is_bad).tolist():
                type = self._schema.field(name).type
                reasons.setdefault(row, f"column {name!r} of type {type} does not hold the value")
        for row, name in self._looked_up(states, forms, columns).items():
            reasons.setdefault(
                row,
                f"column {name!r}: Debezium did not send the value, and neither the batch nor the table has it",
            )
        self._note_bad(states, reasons)
        batch = self._batch(columns, states.kinds, self.changes.positions[states.end_lsns])
        if not reasons:
            return batch
        is_good = np.ones(len(states), np.bool_)
        is_good[list(reasons)] = False
        return batch.filter(pa.array(is_good))

    def _values_of(self, states: StateSlice) -> list[str]:
        return [name for name in self._values if name in states.values]

    def _forms(self, states: StateSlice) -> dict[str, ValueForm]:
        """Return the form of each column: of the slice's schema, or else of another in the batch."""
        number = states.relation.oid
        schemas = self.changes.forms
        forms: dict[str, ValueForm] = {}
        for schema in [*([schemas[number]] if number >= 0 else []), *reversed(schemas)]:
            for column in schema.columns:
                forms.setdefault(column.name, value_form(column.type))
        if number < 0:
            forms = {}
        for name in (*self._key, *self._values):
            if name not in forms:
                forms[name] = assumed_form(self._schema.field(name).type, self.decimals)
        return forms

    def _cast(self, form: ValueForm, raw: pa.Array, name: str) -> MarkedValues:
        data, ranges = texts_of(raw)
        return read_values(form, data, ranges, self._schema.field(name).type)

    def _looked_up(
        self, states: StateSlice, forms: Mapping[str, ValueForm], columns: dict[str, pa.Array]
    ) -> dict[int, str]:
        """Put the table's values into the columns that lack some; return which rows stay without, and of what."""
        lost: dict[int, str] = {}
        is_open: Mask = np.zeros(len(states), np.bool_)
        for mask in states.unresolved.values():
            is_open |= mask
        rows = np.flatnonzero(is_open)
        if not len(rows):
            return lost
        names = [name for name in states.unresolved if name in columns]
        there = self._rows_of(states, forms, rows, names)
        places = np.full(len(states), -1, np.int64)
        places[rows] = np.arange(len(rows))
        index = pa.array(places, mask=places < 0)
        for name in names:
            mask = states.unresolved[name]
            values = _one_array(there.column(name)).take(index)
            columns[name] = _replaced(columns[name], np.flatnonzero(mask), values)
            for row in np.flatnonzero(mask & np.asarray(values.is_null())).tolist():
                lost.setdefault(row, name)
        return lost

    def _rows_of(
        self, states: StateSlice, forms: Mapping[str, ValueForm], rows: Longs, names: list[str]
    ) -> pa.Table:
        """Return what the table has under the keys that the rows had before the batch; nulls where it has nothing."""
        keys = {
            name: self._cast(forms[name], states.origins[name].take(pa.array(rows)), name).values
            for name in self._key
        }
        batch = pa.RecordBatch.from_pydict(keys)
        nothing = pa.array(np.zeros(len(rows), np.int64), mask=np.ones(len(rows), np.bool_))
        there = self.table.lookup(batch, names)
        if self.has_truncate:
            there = there.take(nothing)
        return self._with_kept(states, rows, batch, there)

    def _with_kept(
        self, states: StateSlice, rows: Longs, keys: pa.RecordBatch, there: pa.Table
    ) -> pa.Table:
        """Put in the rows of keys that the end of the batch before has deleted, as they were before it."""
        for each in self.changes.kept:
            is_kept = np.ones(len(rows), np.bool_)
            for name, text in each.key:
                origins = states.origins[name].take(pa.array(rows))
                is_kept &= np.asarray(pc.equal(origins, text).fill_null(False))
            at = np.flatnonzero(is_kept)
            before = rows_before(
                self.table, keys.take(pa.array(at)), there.schema.names, each.before
            )
            if len(at) and before is not None:
                index = np.arange(len(rows))
                index[at] = len(rows) + np.arange(len(at))
                there = pa.concat_tables([there, before]).take(pa.array(index))
        return there

    def _note_bad(self, states: StateSlice, reasons: Mapping[int, str]) -> None:
        if reasons:
            numbers = sorted(reasons)
            index = pa.array(numbers, pa.int64())
            self.bad.append(
                bad_records(
                    self.changes.ordinals[states.end_lsns[numbers]],
                    [_LETTERS[kind] for kind in states.kinds.take(index).to_pylist()],
                    _objects(states.keys, index),
                    _objects(states.values, index),
                    [reasons[number] for number in numbers],
                )
            )


def _objects(columns: Mapping[str, pa.Array], rows: pa.Array) -> pa.Array:
    """Return some rows of raw JSON columns as JSON objects."""
    pieces = [
        pc.binary_join_element_wise(
            pa.scalar(json.dumps(name, ensure_ascii=False), pa.large_string()),
            column.take(rows).fill_null("null"),
            pa.scalar(":", pa.large_string()),
        )
        for name, column in columns.items()
    ]
    if not pieces:
        return pa.repeat(pa.scalar("{}", pa.large_string()), len(rows))
    inner = pc.binary_join_element_wise(*pieces, pa.scalar(",", pa.large_string()))
    opening, closing, nothing = (pa.scalar(text, pa.large_string()) for text in ("{", "}", ""))
    return pc.binary_join_element_wise(opening, inner, closing, nothing)


def _replaced(values: pa.Array, rows: Longs, others: pa.Array) -> pa.Array:
    """Return the values, with those of `others`, which is as long, at some rows. Any type will do."""
    index = np.arange(len(values))
    index[rows] += len(values)
    return pa.concat_arrays([values, others.cast(values.type)]).take(pa.array(index))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
