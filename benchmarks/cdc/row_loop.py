"""Decode the log of PostgreSQL row by row, as programs do that get one message at a time from a replication cursor."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa


def row_loop(data: bytes) -> dict[int, pa.Table]:
    """Decode a part of COPY BINARY to a table of texts for each relation, with the new values of each change."""
    names: dict[int, list[str]] = {}
    rows: dict[int, list[list[str | None]]] = {}
    at, size_at, short_at = 19, struct.Struct(">I").unpack_from, struct.Struct(">H").unpack_from
    while data[at : at + 2] == b"\0\3":
        (size,) = size_at(data, at + 22)
        start = at + 26
        at = start + size
        letter = data[start]
        if letter == 82:
            oid, columns = _relation(data[start + 1 : at])
            names[oid] = columns
            rows.setdefault(oid, [])
        elif letter in (73, 85, 68):
            (oid,) = size_at(data, start + 1)
            place = start + 5
            values: list[str | None] = []
            while place < at:  # of two tuples the last one is the new row
                (count,) = short_at(data, place + 1)
                place += 3
                values = []
                for _ in range(count):
                    mark = data[place]
                    place += 1
                    if mark == 116:
                        (length,) = size_at(data, place)
                        values.append(data[place + 4 : place + 4 + length].decode())
                        place += 4 + length
                    else:
                        values.append(None)
            rows[oid].append(values)
    return {oid: _table(names[oid], rows[oid]) for oid in rows}


def _table(names: list[str], rows: list[list[str | None]]) -> pa.Table:
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, pa.large_string()) for column in columns], names=names)


def _relation(body: bytes) -> tuple[int, list[str]]:
    (oid,) = struct.unpack(">I", body[:4])
    _, _, rest = body[4:].split(b"\0", 2)
    (count,) = struct.unpack(">H", rest[1:3])
    rest, names = rest[3:], []
    for _ in range(count):
        name, rest = rest[1:].split(b"\0", 1)
        names.append(name.decode())
        rest = rest[8:]
    return oid, names
