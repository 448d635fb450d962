"""Builds parts of a log from values, by the grammar of PostgreSQL's documentation."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

from tests.cdc.log.slow_decoder import UNCHANGED

Cells = Sequence[str | None]


def part(*messages: bytes, extension: bytes = b"") -> bytes:
    """A whole part of COPY BINARY."""
    head = b"PGCOPY\n\xff\r\n\0" + struct.pack(">II", 0, len(extension)) + extension
    return head + b"".join(map(row, messages)) + b"\xff\xff"


def row(message: bytes) -> bytes:
    return struct.pack(">hIqIII", 3, 8, 7, 4, 9, len(message)) + message


def begin(xid: int, lsn: int = 100, micros: int = 0) -> bytes:
    return b"B" + struct.pack(">qqI", lsn, micros, xid)


def commit(end_lsn: int, lsn: int = 100, micros: int = 0) -> bytes:
    return b"C" + struct.pack(">bqqq", 0, lsn, end_lsn, micros)


def relation(oid: int, *columns: str, name: str = "t", identity: str = "d") -> bytes:
    """The first column is the key."""
    head = b"R" + struct.pack(">I", oid) + b"public\0" + name.encode() + b"\0" + identity.encode()
    described = b"".join(
        struct.pack(">B", at == 0) + column.encode() + b"\0" + struct.pack(">Ii", 25, -1)
        for at, column in enumerate(columns)
    )
    return head + struct.pack(">H", len(columns)) + described


def cells(values: Cells) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None or value == UNCHANGED:
            parts.append(b"n" if value is None else b"u")
        else:
            text = value.encode()
            parts.append(b"t" + struct.pack(">I", len(text)) + text)
    return b"".join(parts)


def insert(oid: int, *values: str | None) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + cells(values)


def update(oid: int, new: Cells, old: Cells = (), letter: str = "K") -> bytes:
    before = letter.encode() + cells(old) if old else b""
    return b"U" + struct.pack(">I", oid) + before + b"N" + cells(new)


def delete(oid: int, *old: str | None, letter: str = "K") -> bytes:
    return b"D" + struct.pack(">I", oid) + letter.encode() + cells(old)


def truncate(*oids: int, options: int = 0) -> bytes:
    return b"T" + struct.pack(f">IB{len(oids)}I", len(oids), options, *oids)


def random_part(rng: random.Random, transactions: int) -> bytes:
    """Transactions of a few tables, whose forms change."""
    messages: list[bytes] = []
    widths: dict[int, int] = {}
    for number in range(transactions):
        messages.append(begin(rng.getrandbits(32), number, rng.getrandbits(50)))
        for _ in range(rng.randint(0, 5)):
            oid = rng.choice((1, 20_000, 2**32 - 1))
            if oid not in widths or rng.random() < 0.2:
                widths[oid] = rng.choice((0, 1, 2, 5))
                messages.append(relation(oid, *(f"é{at}" for at in range(widths[oid]))))
            messages.append(_random_change(rng, oid, widths))
        if rng.random() < 0.3:
            messages.append(rng.choice((b"Y123", b"Oabc\0", b"M")))
        messages.append(commit(rng.getrandbits(62), number, rng.getrandbits(50)))
    return part(*messages)


def _random_change(rng: random.Random, oid: int, widths: dict[int, int]) -> bytes:
    def values() -> list[str | None]:
        texts = (None, "", "a", "ß", "text" * 3, UNCHANGED)
        return [rng.choice(texts) for _ in range(widths[oid])]

    def olds() -> list[str | None]:
        return [None if value == UNCHANGED else value for value in values()]

    kind = rng.choice("IUUDT")
    if kind == "I":
        return insert(oid, *values())
    if kind == "U":
        return update(oid, values(), olds() if rng.random() < 0.5 else (), rng.choice("KO"))
    if kind == "D":
        return delete(oid, *olds(), letter=rng.choice("KO"))
    return truncate(*rng.sample(sorted(widths), rng.randint(1, len(widths))))
