"""Reads the records of a batch into changes of one table.

    records (chunks) ─► envelopes ─► ChangeBatch for each form of the row ─► ... ─► `Changes`

The texts of a `ChangeBatch` are raw JSON here, strings with their quotes: only the last state of a key is made a value,
so no value is read in vain, and none is rounded. A null is null, and so is a field that a row does not have. `xids`
are 0, `end_lsns` number the changes.

A placeholder counts as an unchanged value. A key that changes comes as a delete and an insert of one event
(`emitUpdateAsPrimaryKeyChangeRecord`): the insert then may have placeholders, whose values the deleted row has. Such a
pair becomes one update.

In: `Records`, chunk by chunk. Out: `Changes`. Raises InvalidError for rows that no column and no schema explains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable import InvalidError
from widetable_cdc.debezium.bad_records import bad_records
from widetable_cdc.debezium.connect_schema import RecordForm, record_form
from widetable_cdc.debezium.envelope import Envelopes, key_texts, read_envelopes
from widetable_cdc.debezium.json_fields import Fields, Ranges, scan_fields
from widetable_cdc.debezium.json_kernels import Bytes, Longs, Mask
from widetable_cdc.debezium.json_texts import raw_texts
from widetable_cdc.debezium.last_delete import LastDelete, last_delete, with_kept
from widetable_cdc.debezium.moved_rows import FormChanges, paired, sorted_by_position
from widetable_cdc.debezium.records import RecordCounts, Records
from widetable_cdc.debezium.source_position import NO_POSITION, events, positions
from widetable_cdc.debezium.unavailable import DEFAULT, Unavailable
from widetable_cdc.log.changes import ChangeBatch, Kind, OldRow, Relation, RelationColumn

_NO_FORM: Final = -1


@dataclass(frozen=True)
class ChangeSettings:
    """How records are read. key: the columns of the target's key. columns: those of the target, () if there is none
    yet. placeholder: of values that are not carried. has_positions: whether changes are ordered by their position in
    the source. kept: returns the deletes that ended the batch before; called only where an insert lacks its delete.
    """

    key: tuple[str, ...]
    columns: tuple[str, ...] = ()
    placeholder: str = DEFAULT
    has_positions: bool = False
    kept: Callable[[], Sequence[LastDelete]] = tuple


@dataclass(frozen=True)
class Changes:
    """The changes of a batch, in their order. forms: of the schemas; a batch's relation has the number of its form as
    oid, -1 for rows without a schema. ordinals, positions: int64, of the records; a batch's `end_lsns` are indices in
    them, which ascend by one. kept: the deletes of the batch before that an insert belongs to. last_delete: that of
    this batch.
    """

    batches: tuple[ChangeBatch, ...]
    ordinals: Longs
    positions: Longs
    forms: tuple[RecordForm, ...]
    bad: tuple[pa.Table, ...]
    counts: RecordCounts
    kept: tuple[LastDelete, ...] = ()
    last_delete: LastDelete | None = None


@dataclass
class ChangeReader:
    """Collects the changes of a batch. Use it for one batch, in one thread."""

    settings: ChangeSettings
    _forms: dict[RecordForm, int] = field(default_factory=dict)
    _form_of: dict[str, int] = field(default_factory=dict)
    _parts: list[FormChanges] = field(default_factory=list)
    _bad: list[pa.Table] = field(default_factory=list)
    _counts: RecordCounts = field(default_factory=RecordCounts)

    def __post_init__(self) -> None:
        self._unavailable = Unavailable.of(self.settings.placeholder)

    def read(self, records: Records) -> None:
        """Read one chunk; chunks come in the order of the records."""
        envelopes = read_envelopes(records)
        self._counts += RecordCounts(
            records=len(records),
            tombstones=int(envelopes.is_tombstone.sum()),
            messages=int(envelopes.is_message.sum()),
        )
        self._note_bad(envelopes, np.array(list(envelopes.reasons), np.int64), envelopes.reasons)
        rows = np.flatnonzero(envelopes.kinds)
        numbers = np.array([self._number(text) for text in envelopes.schemas], np.int64)
        forms = np.full(len(rows), _NO_FORM, np.int64)
        has_form = envelopes.forms[rows] >= 0
        forms[has_form] = numbers[envelopes.forms[rows][has_form]]
        for run in np.split(rows, np.flatnonzero(np.diff(forms)) + 1):
            if len(run):
                number = int(forms[np.searchsorted(rows, run[0])])
                self._parts.append(self._changes(envelopes, run, number))

    def finish(self) -> Changes:
        """Return all changes."""
        parts, counts = [part for part in self._parts if len(part)], self._counts
        if self.settings.has_positions:
            parts, late = sorted_by_position(parts)
            counts += RecordCounts(late=late)
        ending = last_delete(parts)
        kept: list[LastDelete] = []
        parts = [part for part in paired(parts) if len(part)]
        if any(part.lacks_delete for part in parts):
            parts, kept = with_kept(parts, self.settings.kept())
            parts = paired(parts)
        batches = [part.changes for part in parts if len(part)]
        ends = np.cumsum([0, *(len(batch.kinds) for batch in batches)])
        return Changes(
            tuple(
                replace(batch, end_lsns=np.arange(first, last))
                for batch, first, last in zip(
                    batches, ends[:-1].tolist(), ends[1:].tolist(), strict=True
                )
            ),
            _joined([batch.ordinals for batch in batches]),
            _joined([batch.end_lsns for batch in batches]),
            tuple(self._forms),
            tuple(self._bad),
            counts,
            tuple(kept),
            ending,
        )

    def _number(self, schema: str) -> int:
        """Return the number of the form that a schema describes."""
        number = self._form_of.get(schema)
        if number is None:
            form = record_form(schema)
            number = self._forms.setdefault(form, len(self._forms))
            self._form_of[schema] = number
        return number

    def _changes(self, envelopes: Envelopes, rows: Longs, number: int) -> FormChanges:
        """Return the changes of rows of one form."""
        data = envelopes.data
        after, before = (_rows_of(each, rows) for each in (envelopes.after, envelopes.before))
        names = self._names(number)
        new = scan_fields(data, after, names)
        old = scan_fields(data, before, names)
        if number == _NO_FORM:
            names = self._known(envelopes, names, rows, (new, old))
        kinds = envelopes.kinds[rows]
        is_delete = kinds == Kind.DELETE
        columns = {name: _values(data, new, name, ~is_delete) for name in names}
        old_key = self._old_key(envelopes, rows, old, is_delete)
        is_good = self._good(envelopes, rows, columns, old_key)
        unchanged: dict[str, Mask] = {}
        for name in names:
            mask = self._unavailable.among(data, new[name]) & ~is_delete
            if mask.any() and name not in self.settings.key:
                columns[name], unchanged[name] = self._from_old(
                    data, columns[name], old, name, mask
                )
        has_old = _all_there([old_key[name] for name in self.settings.key])
        source = _rows_of(envelopes.source, rows)
        where = positions(data, source) if self.settings.has_positions else None
        changes = ChangeBatch(
            relation=_relation(number, names, self.settings.key),
            kinds=kinds,
            old_rows=np.where(has_old, OldRow.KEY, OldRow.NONE).astype(np.uint8),
            ordinals=envelopes.records.ordinals[rows],
            xids=np.zeros(len(rows), np.uint32),
            end_lsns=np.full(len(rows), NO_POSITION, np.int64) if where is None else where,
            new=pa.RecordBatch.from_pydict(columns, _texts_schema(names)),
            unchanged=unchanged,
            old=pa.RecordBatch.from_pydict(old_key, _texts_schema(self.settings.key)),
        )
        return FormChanges(changes, _event_texts(data, source, kinds, unchanged)).kept(is_good)

    def _names(self, number: int) -> tuple[str, ...]:
        if number == _NO_FORM:
            return self.settings.columns
        names = list(self._forms)[number].names
        lacking = [name for name in self.settings.key if name not in names]
        if lacking:
            raise InvalidError(
                "schema of a Debezium record",
                found=f"the columns {', '.join(names)}",
                expected=f"the key column {', '.join(map(repr, lacking))} among them",
                action="Pass the records of one table, and its key.",
            )
        return names

    def _known(
        self, envelopes: Envelopes, names: tuple[str, ...], rows: Longs, parts: Sequence[Fields]
    ) -> tuple[str, ...]:
        """Return the columns that rows without a schema have; raise for one that the table does not have."""
        for fields in parts:
            strange = np.flatnonzero(fields.unknown.is_there)
            if len(strange):
                first = slice(int(strange[0]), int(strange[0]) + 1)
                text = raw_texts(envelopes.data, Ranges(*(each[first] for each in fields.unknown)))
                ordinal = int(envelopes.records.ordinals[rows[strange[0]]])
                raise InvalidError(
                    f"field {text[0].as_py()!r} of record {ordinal}",
                    found="no column of this name, and a record without a schema",
                    expected=f"one of {', '.join(names)}"
                    if names
                    else "a schema, or a table that is there",
                    action="Add the column, or let the converter write schemas (value.converter.schemas.enable).",
                )
        is_used = (np.hstack([each.ranges[2::2] for each in parts]) >= 0).any(axis=1)
        chosen = {names[at] for at in np.flatnonzero(is_used)}
        return tuple(name for name in names if name in chosen or name in self.settings.key)

    def _old_key(
        self, envelopes: Envelopes, rows: Longs, old: Fields, is_delete: Mask
    ) -> dict[str, pa.Array]:
        """Return the key before each change: of the row before it, and of the record's key for other deletes."""
        key = self.settings.key
        columns = {
            name: _values(envelopes.data, old, name, np.ones(len(rows), np.bool_)) for name in key
        }
        lacks = np.flatnonzero(is_delete & ~_all_there(list(columns.values())))
        if len(lacks):
            texts = key_texts(envelopes, key, rows[lacks])
            places = np.full(len(rows), -1, np.int64)
            places[lacks] = np.arange(len(lacks))
            index = pa.array(places, mask=places < 0)
            for name in key:
                columns[name] = pc.coalesce(texts[name].take(index), columns[name])
        return columns

    def _good(
        self,
        envelopes: Envelopes,
        rows: Longs,
        columns: dict[str, pa.Array],
        old_key: dict[str, pa.Array],
    ) -> Mask:
        """Return which changes have the key that they need; note the others as bad."""
        kinds, key = envelopes.kinds[rows], self.settings.key
        has_new = _all_there([columns[name] for name in key])
        has_old = _all_there([old_key[name] for name in key])
        has_key: Mask = np.where(kinds == Kind.DELETE, has_old, has_new) | (kinds == Kind.TRUNCATE)
        lacks: Mask = ~has_key
        reason = f"the key {', '.join(key)} is missing or null"
        self._note_bad(envelopes, rows[lacks], dict.fromkeys(rows[lacks].tolist(), reason))
        if not self.settings.has_positions:
            return has_key
        lost = (positions(envelopes.data, _rows_of(envelopes.source, rows)) < 0) & ~lacks
        reason = "the source gives no position, which the table is ordered by"
        self._note_bad(envelopes, rows[lost], dict.fromkeys(rows[lost].tolist(), reason))
        is_good: Mask = has_key & ~lost
        return is_good

    def _from_old(
        self, data: Bytes, values: pa.Array, old: Fields, name: str, mask: Mask
    ) -> tuple[pa.Array, Mask]:
        """Take values that are not carried from the row before, which says null for what it does not carry either."""
        ranges = old[name]
        says_null = ranges.begin_with(data, "n") | self._unavailable.among(data, ranges)
        carries: Mask = mask & ranges.is_there & ~says_null
        nothing = pa.scalar(None, pa.large_string())
        values = pc.if_else(pa.array(mask & ~carries), nothing, values)
        if carries.any():
            values = pc.if_else(pa.array(carries), raw_texts(data, ranges), values)
        rest: Mask = mask & ~carries
        return values, rest

    def _note_bad(self, envelopes: Envelopes, rows: Longs, reasons: dict[int, str]) -> None:
        if len(rows):
            records = envelopes.records
            index = pa.array(rows)
            keys = pa.nulls(len(rows), pa.large_string())
            letters = [
                chr(letter) if letter else None for letter in envelopes.letters[rows].tolist()
            ]
            self._bad.append(
                bad_records(
                    records.ordinals[rows],
                    letters,
                    keys if records.keys is None else records.keys.take(index),
                    records.values.take(index),
                    [reasons[row] for row in rows.tolist()],
                )
            )


def _joined(arrays: Sequence[Longs]) -> Longs:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _rows_of(ranges: Ranges, rows: Longs) -> Ranges:
    return Ranges(ranges.starts[rows], ranges.ends[rows])


def _values(data: Bytes, fields: Fields, name: str, keeps: Mask) -> pa.Array:
    ranges = fields[name]
    return raw_texts(data, ranges.where(keeps & ~ranges.begin_with(data, "n")))


def _all_there(columns: Sequence[pa.Array]) -> Mask:
    there: Mask = np.asarray(columns[0].is_valid())
    for column in columns[1:]:
        there = there & np.asarray(column.is_valid())
    return there


def _texts_schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.large_string()) for name in names])


def _relation(number: int, names: Sequence[str], key: Sequence[str]) -> Relation:
    columns = tuple(RelationColumn(name, 0, -1, name in key) for name in names)
    return Relation(number, "", "", "d", columns)


def _event_texts(
    data: Bytes,
    source: Ranges,
    kinds: Bytes,
    unchanged: dict[str, Mask],
) -> pa.Array:
    """Return the event of each delete, and of each insert with placeholders; null for the others."""
    lacks = np.zeros(len(kinds), np.bool_)
    for mask in unchanged.values():
        lacks |= mask
    wanted = (kinds == Kind.DELETE) | ((kinds == Kind.INSERT) & lacks)
    return events(data, source.where(wanted))
