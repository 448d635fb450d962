"""Parse Relation messages, which say what a table looks like from here on.

In: the bytes of one message. Out: a Relation. Raises DamagedError with the offset. PostgreSQL's documentation,
"Logical Replication Message Formats":

    message     "R" oid: int32, schema: text 00, name: text 00, identity: int8, count: int16, column * count
    column      flags: int8 (1: part of the identity), name: text 00, type oid: int32, typmod: int32

The schema pg_catalog is sent as an empty text.
"""

from __future__ import annotations

import struct
from typing import Final

from widetable_cdc.log.changes import Relation, RelationColumn
from widetable_cdc.log.log_damage import damage

_IDENTITIES: Final = b"dnfi"


class _MessageReader:
    """Takes values from a message, first to last. start: the offset of the message, for errors."""

    def __init__(self, message: bytes, start: int) -> None:
        self._message = message
        self._start = start
        self.at = 1

    def numbers(self, form: str) -> tuple[int, ...]:
        """Take big-endian numbers, in the letters of `struct`."""
        layout = struct.Struct(f">{form}")
        if self.at + layout.size > len(self._message):
            raise self.wrong(f"{layout.size} more bytes")
        self.at += layout.size
        return layout.unpack_from(self._message, self.at - layout.size)

    def text(self) -> str:
        """Take a text that ends with a zero byte."""
        end = self._message.find(b"\0", self.at)
        if end < 0:
            raise self.wrong("a text that ends with a zero byte")
        try:
            text = self._message[self.at : end].decode()
        except UnicodeDecodeError as error:
            raise self.wrong("a text in UTF-8") from error
        self.at = end + 1
        return text

    def wrong(self, expected: str) -> Exception:
        """Return the error for what stands at the next byte."""
        rest = self._message[self.at : self.at + 16]
        return damage(self._start + self.at, f"the bytes {rest.hex(' ') or 'of no more'}", expected)


def parse_relation(message: bytes, start: int) -> Relation:
    """Parse a Relation message. start: its offset in the part. Raises DamagedError."""
    reader = _MessageReader(message, start)
    (oid,) = reader.numbers("I")
    schema, name = reader.text(), reader.text()
    identity = message[reader.at : reader.at + 1]
    if not identity or identity not in _IDENTITIES:
        raise reader.wrong("the replica identity d, n, f or i")
    _, count = reader.numbers("bH")
    columns = []
    for _ in range(count):
        (flags,) = reader.numbers("B")
        column = reader.text()
        type_oid, typmod = reader.numbers("Ii")
        columns.append(RelationColumn(column, type_oid, typmod, is_key=bool(flags & 1)))
    if reader.at != len(message):
        raise reader.wrong("the end of the message")
    return Relation(oid, schema or "pg_catalog", name, identity.decode(), tuple(columns))
