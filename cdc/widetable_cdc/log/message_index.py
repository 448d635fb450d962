"""Find the messages in a part of the log, and what each of them belongs to.

In: the bytes of `COPY (SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes(...)) TO STDOUT (FORMAT binary)`
with protocol version 1 of pgoutput. Out: transactions, changes and Relation messages as arrays of offsets. Raises
DamagedError for bytes that are not of this grammar, with the offset.

PostgreSQL's documentation, COPY, "Binary Format". All integers are big-endian:

    file        "PGCOPY\\n" FF "\\r\\n" 00, flags: int32 (0), size: int32, extension: size bytes, row*, -1: int16
    row         3: int16, 8: int32, lsn: int64, 4: int32, xid: int32, size: int32, message: size bytes

PostgreSQL's documentation, "Logical Replication Message Formats", without streaming and two-phase commit:

    Begin       "B" final_lsn: int64, micros since 2000: int64, xid: int32
    Commit      "C" 0: int8, commit_lsn: int64, end_lsn: int64, micros since 2000: int64
    Relation    "R" oid: int32, ... (relation_message.py)
    Insert      "I" oid: int32, "N" tuple (tuple_columns.py)
    Update      "U" oid: int32, ("K" tuple | "O" tuple)?, "N" tuple
    Delete      "D" oid: int32, "K" tuple | "O" tuple
    Truncate    "T" count: int32, options: int8, oid: int32 * count
    Type        "Y", Origin "O", Message "M": passed over

    part        (transaction | Type | Origin | Message | Relation)*
    transaction Begin, (Relation | Insert | Update | Delete | Truncate | Type | Origin | Message)*, Commit

The final LSN of Begin is the commit LSN of its Commit. A part holds whole transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.connector import kernel
from widetable_cdc.log.log_damage import damage

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Long: TypeAlias = int | np.int64

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
# Micros from 1970 to 2000.
_EPOCH: Final = 946_684_800_000_000

# Bytes of a row before its message, and of the messages whose size is fixed.
_HEAD: Final = 26
_BEGIN_BYTES: Final = 21
_COMMIT_BYTES: Final = 26
_TRUNCATE_BYTES: Final = 6
_CHANGE_BYTES: Final = 8

_B: Final = ord("B")
_C: Final = ord("C")
_R: Final = ord("R")
_I: Final = ord("I")
_U: Final = ord("U")
_D: Final = ord("D")
_T: Final = ord("T")
_Y: Final = ord("Y")
_O: Final = ord("O")
_M: Final = ord("M")

# What was expected where the bytes are wrong: positions in _EXPECTED.
_FINE: Final = 0
_NO_ROW: Final = 1
_NO_LSN: Final = 2
_NO_XID: Final = 3
_NO_MESSAGE: Final = 4
_NO_KIND: Final = 5
_NO_END: Final = 6
_NO_BEGIN: Final = 7
_NO_COMMIT: Final = 8
_NO_TRUNCATE: Final = 9
_NO_CHANGE: Final = 10
_CUT: Final = 11
_OUTSIDE: Final = 12
_INSIDE: Final = 13
_WITHOUT_COMMIT: Final = 14
_OTHER_LSN: Final = 15
_EXPECTED: Final = (
    "",
    "the count 3 of the fields of a row, or -1 for the end",
    "the size 8 of an LSN",
    "the size 4 of a transaction's number",
    "the size of a message, 1 or more",
    "the letter of a message of protocol 1 (B, C, R, I, U, D, T, Y, O or M)",
    "the end of the part",
    "a Begin message of 21 bytes",
    "a Commit message of 26 bytes",
    "a Truncate message as long as its count of tables says",
    "a change of 8 bytes or more",
    "more bytes",
    "a Begin message before",
    "the Commit message of the transaction before",
    "the Commit message of the last transaction",
    "the commit LSN that its Begin message says",
)


@dataclass(frozen=True)
class MessageIndex:
    """Where messages lie. Changes, in the order of the log, one row for each table of a Truncate:

    starts, ends: int64[n], of the message. kinds: uint8[n], its letter. oids: int64[n], of the table. positions:
    int64[n], how many Relation messages come before it. transactions: int64[n], rows of the others. xids: uint32[t].
    end_lsns, commit_micros: int64[t]. relation_starts, relation_ends: int64[r], of the Relation messages.
    """

    starts: Longs
    ends: Longs
    kinds: Bytes
    oids: Longs
    positions: Longs
    transactions: Longs
    xids: npt.NDArray[np.uint32]
    end_lsns: Longs
    commit_micros: Longs
    relation_starts: Longs
    relation_ends: Longs


def message_index(data: Bytes) -> MessageIndex:
    """Find the messages of a part. data: all its bytes. Raises DamagedError."""
    first = _rows_begin(data)
    place = np.zeros(2, np.int64)
    counts = np.zeros(3, np.int64)
    _check(_count_messages(data, first, counts, place), data, place)
    transactions, changes, relations = (int(count) for count in counts)
    index = MessageIndex(
        starts=np.empty(changes, np.int64),
        ends=np.empty(changes, np.int64),
        kinds=np.empty(changes, np.uint8),
        oids=np.empty(changes, np.int64),
        positions=np.empty(changes, np.int64),
        transactions=np.empty(changes, np.int64),
        xids=np.empty(transactions, np.uint32),
        end_lsns=np.empty(transactions, np.int64),
        commit_micros=np.empty(transactions, np.int64),
        relation_starts=np.empty(relations, np.int64),
        relation_ends=np.empty(relations, np.int64),
    )
    code = _index_messages(data, first, place, *vars(index).values())
    _check(code, data, place)
    return index


def _rows_begin(data: Bytes) -> int:
    """Return the offset of the first row, behind the head of the file."""
    head = data[: len(_SIGNATURE) + 8].tobytes()
    if not head.startswith(_SIGNATURE) or len(head) < len(_SIGNATURE) + 8:
        raise damage(0, f"the bytes {head.hex(' ') or 'of an empty part'}", "the head of COPY")
    flags = int.from_bytes(head[11:15], "big")
    if flags:
        raise damage(11, f"the flags {flags:#x} of COPY", "no flags")
    return len(head) + int.from_bytes(head[15:19], "big")


def _check(code: int, data: Bytes, place: Longs) -> None:
    if code != _FINE:
        at, number = (int(item) for item in place)
        there = f"the number {number}" if number >= 0 or code != _CUT else "the end of the bytes"
        if code == _NO_KIND:
            there = f"the byte {int(data[at]):#04x}"
        raise damage(at, there, _EXPECTED[code])


@kernel
def _int32_at(data: Bytes, at: Long) -> Long:
    number = (
        (np.int64(data[at]) << 24)
        | (np.int64(data[at + 1]) << 16)
        | (np.int64(data[at + 2]) << 8)
        | np.int64(data[at + 3])
    )
    return number - ((number >> 31) << 32)


@kernel
def _int64_at(data: Bytes, at: Long) -> Long:
    low = _int32_at(data, at + 4)
    return (np.int64(_int32_at(data, at)) << 32) | (np.int64(low) & 0xFFFFFFFF)


@kernel
def _fault(place: Longs, at: Long, number: Long, code: int) -> int:
    place[0] = at
    place[1] = number
    return code


@kernel
def _size_fault(data: Bytes, at: Long, size: Long, place: Longs) -> int:
    """Check the size of the message that begins at `at`."""
    kind = data[at]
    if kind in (_I, _U, _D):
        return _FINE if size >= _CHANGE_BYTES else _fault(place, at, size, _NO_CHANGE)
    if kind == _B:
        return _FINE if size == _BEGIN_BYTES else _fault(place, at, size, _NO_BEGIN)
    if kind == _C:
        return _FINE if size == _COMMIT_BYTES else _fault(place, at, size, _NO_COMMIT)
    if kind == _T:
        if size < _TRUNCATE_BYTES or size != _TRUNCATE_BYTES + 4 * _int32_at(data, at + 1):
            return _fault(place, at, size, _NO_TRUNCATE)
        return _FINE
    if kind in (_R, _Y, _O, _M):
        return _FINE
    return _fault(place, at, np.int64(kind), _NO_KIND)


@kernel
def _count_messages(data: Bytes, first: int, counts: Longs, place: Longs) -> int:
    """Check rows and sizes, and count: counts are transactions, rows of changes, Relation messages."""
    at: Long = first
    end = len(data)
    while True:
        if at + 2 > end:
            return _fault(place, end, -1, _CUT)
        fields = (np.int64(data[at]) << 8) | np.int64(data[at + 1])
        if fields == 0xFFFF:
            return _FINE if at + 2 == end else _fault(place, at + 2, end - at - 2, _NO_END)
        if fields != 3:
            return _fault(place, at, fields, _NO_ROW)
        if at + _HEAD >= end:
            return _fault(place, end, -1, _CUT)
        if _int32_at(data, at + 2) != 8:
            return _fault(place, at + 2, _int32_at(data, at + 2), _NO_LSN)
        if _int32_at(data, at + 14) != 4:
            return _fault(place, at + 14, _int32_at(data, at + 14), _NO_XID)
        size = np.int64(_int32_at(data, at + 22))
        at += _HEAD
        if size < 1:
            return _fault(place, at - 4, size, _NO_MESSAGE)
        if size > end - at:
            return _fault(place, end, -1, _CUT)
        code = _size_fault(data, at, size, place)
        if code != _FINE:
            return code
        kind = data[at]
        if kind == _T:
            counts[1] += _int32_at(data, at + 1)
        elif kind in (_I, _U, _D):
            counts[1] += 1
        elif kind == _B:
            counts[0] += 1
        elif kind == _R:
            counts[2] += 1
        at += size


@kernel
def _index_messages(
    data: Bytes,
    first: int,
    place: Longs,
    starts: Longs,
    ends: Longs,
    kinds: Bytes,
    oids: Longs,
    positions: Longs,
    transactions: Longs,
    xids: npt.NDArray[np.uint32],
    end_lsns: Longs,
    commit_micros: Longs,
    relation_starts: Longs,
    relation_ends: Longs,
) -> int:
    """Fill the arrays of a MessageIndex. Rows and sizes are right (`_count_messages`)."""
    row, relation, transaction, final_lsn, is_open = 0, 0, -1, np.int64(0), False
    at: Long = first
    end = len(data) - 2
    while at < end:
        start = at + _HEAD
        at = start + _int32_at(data, at + 22)
        kind = data[start]
        if kind == _B:
            if is_open:
                return _fault(place, start, np.int64(kind), _INSIDE)
            transaction, is_open = transaction + 1, True
            final_lsn = np.int64(_int64_at(data, start + 1))
            xids[transaction] = np.int64(_int32_at(data, start + 17)) & 0xFFFFFFFF
        elif kind == _R:
            relation_starts[relation], relation_ends[relation] = start, at
            relation += 1
        elif kind in (_C, _I, _U, _D, _T):
            if not is_open:
                return _fault(place, start, np.int64(kind), _OUTSIDE)
            if kind == _C:
                if _int64_at(data, start + 2) != final_lsn:
                    return _fault(place, start + 2, _int64_at(data, start + 2), _OTHER_LSN)
                end_lsns[transaction] = _int64_at(data, start + 10)
                commit_micros[transaction] = _int64_at(data, start + 18) + _EPOCH
                is_open = False
            else:
                oid_at = start + _TRUNCATE_BYTES if kind == _T else start + 1
                for _ in range(_int32_at(data, start + 1) if kind == _T else 1):
                    starts[row], ends[row], kinds[row] = start, at, kind
                    oids[row] = np.int64(_int32_at(data, oid_at)) & 0xFFFFFFFF
                    positions[row], transactions[row] = relation, transaction
                    row += 1
                    oid_at += 4
    return _fault(place, end, -1, _WITHOUT_COMMIT) if is_open else _FINE
