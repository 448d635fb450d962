"""An independent decoder of PostgreSQL's log, value by value, and the changes of a DecodedLog in the same form.

It follows PostgreSQL's documentation ("Logical Replication Message Formats", COPY's "Binary Format") with `struct`,
and checks nothing.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from widetable_cdc.log.changes import DecodedLog, Relation

# The value of a column that did not change and was not sent.
UNCHANGED: Final = "\0unchanged"
_EPOCH_MICROS: Final = 946_684_800_000_000

Row = dict[str, str | None]


class Change(NamedTuple):
    """relation: oid, schema, name, identity, columns. old_row: K, O or nothing. Without a tuple a row is None."""

    xid: int
    end_lsn: int
    relation: tuple[Any, ...]
    kind: str
    old_row: str
    old: Row | None
    new: Row | None


class Transaction(NamedTuple):
    xid: int
    end_lsn: int
    commit_micros: int


class SlowDecoder:
    """Remembers relations from one part to the next."""

    def __init__(self) -> None:
        self.relations: dict[int, tuple[Any, ...]] = {}

    def decode(self, data: bytes) -> tuple[list[Transaction], list[Change]]:
        transactions: list[Transaction] = []
        changes: list[Change] = []
        pending: list[Change] = []
        xid = 0
        for message in messages(data):
            kind, body = chr(message[0]), message[1:]
            if kind == "B":
                xid = struct.unpack(">qqI", body)[2]
            elif kind == "C":
                _, _, end_lsn, micros = struct.unpack(">bqqq", body)
                transactions.append(Transaction(xid, end_lsn, micros + _EPOCH_MICROS))
                changes += [change._replace(end_lsn=end_lsn) for change in pending]
                pending = []
            elif kind == "R":
                relation = _relation(body)
                self.relations[relation[0]] = relation
            elif kind in "IUD":
                pending.append(self._change(xid, kind, body))
            elif kind == "T":
                count, _ = struct.unpack(">Ib", body[:5])
                for oid in struct.unpack(f">{count}I", body[5:]):
                    pending.append(Change(xid, 0, self.relations[oid], kind, "", None, None))
        return transactions, changes

    def _change(self, xid: int, kind: str, body: bytes) -> Change:
        relation = self.relations[struct.unpack(">I", body[:4])[0]]
        names = [column[0] for column in relation[4]]
        at, old_row, old, new = 4, "", None, None
        if body[at : at + 1] in (b"K", b"O"):
            old_row = chr(body[at])
            old, at = _tuple(body, at + 1, names)
        if body[at : at + 1] == b"N":
            new, at = _tuple(body, at + 1, names)
        assert at == len(body)
        return Change(xid, 0, relation, kind, old_row, old, new)


def messages(data: bytes) -> list[bytes]:
    assert data.startswith(b"PGCOPY\n\xff\r\n\0")
    at = 19 + struct.unpack(">I", data[15:19])[0]
    parts = []
    while struct.unpack(">h", data[at : at + 2])[0] == 3:
        (size,) = struct.unpack(">I", data[at + 22 : at + 26])
        parts.append(data[at + 26 : at + 26 + size])
        at += 26 + size
    assert data[at:] == b"\xff\xff"
    return parts


def _relation(body: bytes) -> tuple[Any, ...]:
    (oid,) = struct.unpack(">I", body[:4])
    schema, name, rest = body[4:].split(b"\0", 2)
    identity, count = chr(rest[0]), struct.unpack(">H", rest[1:3])[0]
    rest = rest[3:]
    columns = []
    for _ in range(count):
        flags = rest[0]
        column, rest = rest[1:].split(b"\0", 1)
        columns.append((column.decode(), *struct.unpack(">Ii", rest[:8]), flags == 1))
        rest = rest[8:]
    assert rest == b""
    return oid, schema.decode() or "pg_catalog", name.decode(), identity, tuple(columns)


def _tuple(body: bytes, at: int, names: list[str]) -> tuple[Row, int]:
    (count,) = struct.unpack(">H", body[at : at + 2])
    assert count == len(names)
    at += 2
    row: Row = {}
    for name in names:
        mark = body[at : at + 1]
        at += 1
        if mark == b"t":
            (size,) = struct.unpack(">I", body[at : at + 4])
            row[name] = body[at + 4 : at + 4 + size].decode()
            at += 4 + size
        else:
            row[name] = {b"n": None, b"u": UNCHANGED}[mark]
    return row, at


def changes_of(log: DecodedLog) -> list[Change]:
    """The changes of a DecodedLog, in the order of the log. It checks that columns are whole Arrow columns."""
    numbered: list[tuple[int, Change]] = []
    for batch in log.batches:
        assert (batch.ordinals[1:] > batch.ordinals[:-1]).all()
        for side in (batch.new, batch.old):
            if side is not None:
                side.validate(full=True)
                assert side.num_rows == len(batch.kinds) or not side.num_columns
        columns = batch.relation.columns
        new = batch.new.to_pydict()
        old = batch.old.to_pydict() if batch.old is not None else {}
        for at, kind in enumerate(batch.kinds.tolist()):
            new_row: Row = {column.name: new[column.name][at] for column in columns}
            for name, marks in batch.unchanged.items():
                assert len(marks) == len(batch.kinds)
                assert marks.any()
                if marks[at]:
                    assert new_row[name] is None
                    new_row[name] = UNCHANGED
            old_row = chr(batch.old_rows[at]) if batch.old_rows[at] else ""
            if not old_row:
                assert all(values[at] is None for values in old.values())
            if chr(kind) not in "IU":
                assert not any(new_row.values())
            change = Change(
                int(batch.xids[at]),
                int(batch.end_lsns[at]),
                form_of(batch.relation),
                chr(kind),
                old_row,
                {column.name: old[column.name][at] for column in columns} if old_row else None,
                new_row if chr(kind) in "IU" else None,
            )
            numbered.append((int(batch.ordinals[at]), change))
    ordinals = [ordinal for ordinal, _ in numbered]
    assert len(set(ordinals)) == len(ordinals)
    return [change for _, change in sorted(numbered, key=lambda pair: pair[0])]


def transactions_of(log: DecodedLog) -> list[Transaction]:
    all_ = log.transactions
    columns = (all_.xids.tolist(), all_.end_lsns.tolist(), all_.commit_micros.tolist())
    return [Transaction(*values) for values in zip(*columns, strict=True)]


def form_of(relation: Relation) -> tuple[Any, ...]:
    columns = tuple((c.name, c.type_oid, c.typmod, c.is_key) for c in relation.columns)
    return relation.oid, relation.schema, relation.name, relation.identity, columns
