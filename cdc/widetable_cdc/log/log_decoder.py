"""Decode parts of PostgreSQL's log.

In: the bytes of a part, which holds whole transactions (message_index.py has the grammar). Out: a DecodedLog. Raises
DamagedError for bytes that are not of the grammar; then the decoder is as it was before.

A server sends a Relation message before the first change of a table in a session, and after the table changed. A peek
by SQL is a session of its own; a stream is one as long as it lasts. A decoder keeps the relations that it has seen, so
it decodes both.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from widetable_cdc.log.changes import ChangeBatch, DecodedLog, Relation, Transactions
from widetable_cdc.log.log_damage import damage
from widetable_cdc.log.message_index import Bytes, Longs, MessageIndex, message_index
from widetable_cdc.log.relation_message import parse_relation
from widetable_cdc.log.tuple_columns import tuple_columns

Keep = Callable[[pa.RecordBatch], pa.RecordBatch]
# Many rounds have less, so that a batch is a whole form.
SLICE_BYTES: Final = 16 << 20
# Where the oid begins in a key.
_OID_SHIFT: Final = 32


@dataclass(frozen=True)
class _RelationForm:
    """A relation as a message gave it."""

    message: bytes
    relation: Relation


@dataclass(frozen=True)
class _RelationForms:
    """All forms that relations have in a part. keys: int64[k], sorted, an oid and how many Relation messages come up to
    its form. numbers: int64[k], which of `forms` it is: first those from before the part.
    """

    keys: Longs
    numbers: Longs
    forms: list[_RelationForm]
    before: int

    def of_changes(self, index: MessageIndex) -> Longs:
        """Return the number of the form of each change. Raises DamagedError."""
        if not len(index.oids):
            return np.empty(0, np.int64)
        wanted = _keys(index.oids, index.positions)
        at = np.searchsorted(self.keys, wanted, side="right") - 1
        is_there = at >= 0
        if len(self.keys):
            is_there &= self.keys[at] >> _OID_SHIFT == wanted >> _OID_SHIFT
        if not is_there.all():
            row = int(np.argmin(is_there))
            there = f"a change of the table with the oid {index.oids[row]}"
            raise damage(int(index.starts[row]), there, "a Relation message of the table before")
        return self.numbers[at]

    def newest(self) -> dict[int, _RelationForm]:
        """Return the newest form of each relation, by its oid."""
        return {form.relation.oid: form for form in self.forms}

    def named(self, counts: Longs) -> tuple[Relation, ...]:
        """Return the newest forms of relations that the part names. counts: int64[f], changes of each form."""
        newest = self.newest()
        names = {
            form.relation.oid: None
            for number, form in enumerate(self.forms)
            if number >= self.before or counts[number]
        }
        return tuple(newest[oid].relation for oid in names)


class LogDecoder:
    """Decodes parts of one log, in their order. Not for several threads."""

    def __init__(self) -> None:
        self._newest: dict[int, _RelationForm] = {}

    def decode(
        self,
        data: bytes | bytearray | memoryview | mmap.mmap,
        keep: Keep | None = None,
        slice_bytes: int = SLICE_BYTES,
    ) -> DecodedLog:
        """Decode a part. Raises DamagedError, and what `keep` raises.

        data: what COPY gave, all of it. keep: is given the columns of each batch, and returns what the batch has in
        their place. slice_bytes: about as many bytes of messages has a batch at most.
        """
        kept = _as_they_are if keep is None else keep
        view: Bytes = np.frombuffer(data, np.uint8)
        view.flags.writeable = False
        index = message_index(view)
        forms = _forms_of(view, index, self._newest)
        numbers = forms.of_changes(index)
        counts = np.bincount(numbers, minlength=len(forms.forms)).astype(np.int64)
        order, ends = _order(numbers, counts), np.cumsum(counts)
        batches = tuple(
            _batch(view, index, form.relation, rows, kept)
            for form, count, end in zip(forms.forms, counts, ends, strict=True)
            for rows in _slices(index, order[end - count : end], slice_bytes)
        )
        self._newest = forms.newest()
        transactions = Transactions(index.xids, index.end_lsns, index.commit_micros)
        return DecodedLog(transactions, batches, forms.named(counts))


def _forms_of(data: Bytes, index: MessageIndex, before: dict[int, _RelationForm]) -> _RelationForms:
    """Parse the Relation messages of a part. before: the newest form of each relation before it."""
    forms = list(before.values())
    at = {oid: number for number, oid in enumerate(before)}
    oids, positions, numbers = list(at), [0] * len(at), list(at.values())
    ends = index.relation_ends.tolist()
    for position, (start, end) in enumerate(
        zip(index.relation_starts.tolist(), ends, strict=True), 1
    ):
        message = data[start:end].tobytes()
        oid = int.from_bytes(message[1:5], "big")
        if oid not in at or forms[at[oid]].message != message:
            forms.append(_RelationForm(message, parse_relation(message, start)))
            at[oid] = len(forms) - 1
        oids.append(oid)
        positions.append(position)
        numbers.append(at[oid])
    keys = _keys(np.array(oids, np.int64), np.array(positions, np.int64))
    order = np.argsort(keys)
    return _RelationForms(keys[order], np.array(numbers, np.int64)[order], forms, len(before))


def _keys(oids: Longs, positions: Longs) -> Longs:
    return (oids << _OID_SHIFT) | positions


def _order(numbers: Longs, counts: Longs) -> Longs:
    """Return the rows of all changes, those of one form after those of another, each in the order of the log."""
    if np.count_nonzero(counts) <= 1:
        return np.arange(len(numbers))
    # numpy sorts 16 bits by their digits, in one pass.
    narrow = numbers.astype(np.uint16) if len(counts) < 1 << 16 else numbers
    return np.argsort(narrow, kind="stable")


def _slices(index: MessageIndex, rows: Longs, most: int) -> Iterator[Longs]:
    """Cut changes into slices whose messages have about as many bytes, most of them far less than all."""
    places = np.cumsum(index.ends[rows] - index.starts[rows]) // most
    yield from (each for each in np.split(rows, np.flatnonzero(np.diff(places)) + 1) if len(each))


def _as_they_are(columns: pa.RecordBatch) -> pa.RecordBatch:
    return columns


def _batch(
    data: Bytes, index: MessageIndex, relation: Relation, rows: Longs, keep: Keep
) -> ChangeBatch:
    """Read changes of one form. rows: which changes of the part."""
    transactions = index.transactions[rows]
    kinds = index.kinds[rows]
    columns = tuple_columns(data, relation, index.starts[rows], index.ends[rows], kinds)
    return ChangeBatch(
        relation=relation,
        kinds=kinds,
        old_rows=columns.old_rows,
        ordinals=rows,
        xids=index.xids[transactions],
        end_lsns=index.end_lsns[transactions],
        new=keep(columns.new),
        unchanged=columns.unchanged,
        old=None if columns.old is None else keep(columns.old),
    )
