"""The tail of an ORC file: read and checked before Arrow sees it, and rewritten with types that Arrow reads correctly.

    file        = "ORC" stripe* metadata footer postscript size     size: one byte, of the postscript
    stripe      = index data stripe-footer
    postscript  = 1 footer length, 2 codec, 3 block size, 5 metadata length, 8000 "ORC"
    footer      = 3 stripe*, 4 type*, 6 rows, 7 statistics of a column*, 9 writer
    stripe      = 1 offset, 2 index, 3 data, 4 footer length, 5 rows
    type        = 1 kind, 2 children, 3 their names, 5 precision, 6 scale
    statistics  = 1 values, 9 of times: 1, 2 or 3, 4 least and greatest millisecond
    stripe-footer = 1 stream (1 kind, 2 type, 3 length)*, 2 encoding (1 kind,
                    2 entries)*, 3 the writer's time zone
    metadata, footer and stripe-footer are chunks of the codec: 3 bytes (length << 1 | is plain), bytes

Source: ORC specification v1. A wrong bit in the types makes Arrow end the process, and ORC has no checksums: so the
rules of the tree of types are checked here. Raises ValueError for an invalid tail, UnsupportedError for codecs.

Arrow is shown this file instead of the original, which does not change (`OrcTail.retyped`):

    the file    stripes | metadata footer postscript size
    shown       stripes | footer' postscript' size            footer': other types and names, the same stripes
                        ^ end

The new footer is written in chunks marked "plain", so nothing is compressed. Metadata,
which has statistics of stripes, is left out: Arrow needs none to read rows, and damaged metadata
does no harm then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from widetable.errors import UnsupportedError
from widetable.format.bounded_codecs import inflate, unlz4, unsnappy, unzstd
from widetable.format.orc.protobuf import Message, encoded, message, zigzag

# (position, count)
Read: TypeAlias = Callable[[int, int], bytes]

BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY, TIMESTAMP = range(10)
LIST, MAP, STRUCT, UNION, DECIMAL, DATE, VARCHAR, CHAR, INSTANT = range(10, 19)
_CHILDREN: Final = {LIST: 1, MAP: 2}
# The size of the first read, which holds the postscript.
_TAIL_BYTES: Final = 1 << 14
_MAX_DIGITS: Final = 38
_MAX_NESTED: Final = 64
# Fields of the footer that Arrow needs to read rows, besides types.
_KEPT: Final = (1, 2, 3, 6, 8, 9, 11, 12)
_MAGIC: Final = b"ORC"


@dataclass(frozen=True)
class OrcType:
    """A column, or a part of one. children: indices of types.

    Index 0 is the row itself. names: of the fields of a STRUCT, otherwise empty. precision, scale: of
    a DECIMAL, otherwise 0.
    """

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]
    precision: int
    scale: int


@dataclass(frozen=True)
class Stripe:
    """A stripe. begin, footer: positions of the stripe and its footer; footer_bytes: the footer's length."""

    rows: int
    begin: int
    footer: int
    footer_bytes: int


@dataclass(frozen=True)
class StripeFooter:
    """The footer of a stripe. zone: the writer's. streams: (position, length) by (type, kind). encodings: by type, with
    the number of entries of its dictionary.

    The kind of a stream, such as DATA, is a number of the specification; a stream that
    a column does not need is missing: without nulls there is no PRESENT stream.
    """

    zone: str | None
    streams: Mapping[tuple[int, int], tuple[int, int]]
    encodings: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class OrcTail:
    """A tail. end: where the metadata begins. times: for each type the least and greatest millisecond; None if unknown.

    is_java: written by ORC's Java.

    footer, postscript: the original messages, from which `retyped` copies what it does not change.
    codec: 0 for none. block_bytes: the largest plain size of a chunk. A tail is a value; it reads
    nothing by itself.
    """

    end: int
    codec: int
    block_bytes: int
    footer: Message
    postscript: Message
    types: tuple[OrcType, ...]
    stripes: tuple[Stripe, ...]
    rows: int
    times: tuple[tuple[int, int] | None, ...]
    is_java: bool

    def retyped(self, kinds: Mapping[int, int]) -> bytes:
        """Return a tail for these stripes in which some types have another kind, and columns are called 0, 1, 2, ...

        kinds: by index of a type. The new tail begins at `end`, so all positions of stripes
        stay valid. It has no statistics and metadata.
        """
        types = [
            replace(kind, kind=kinds.get(index, kind.kind)) for index, kind in enumerate(self.types)
        ]
        names = tuple(str(index) for index in range(len(types[0].children)))
        types[0] = replace(types[0], names=names)
        fields = [(key, value) for key, value in self.footer.fields if key in _KEPT]
        fields += [(4, _type_message(kind)) for kind in types]
        footer = self._chunks(message(sorted(fields, key=lambda field: field[0])))
        changed = {1: len(footer), 5: 0}
        kept = [(key, value) for key, value in self.postscript.fields if key not in changed]
        postscript = message(sorted([*kept, *changed.items()], key=lambda field: field[0]))
        return footer + postscript + bytes([len(postscript)])

    def stripe_footer(self, read: Read, stripe: Stripe) -> StripeFooter:
        """Read the footer of a stripe.

        One read. Raises ValueError for streams that overlap the footer, or another number of
        encodings than types.
        """
        data = read(stripe.footer, stripe.footer_bytes)
        footer = Message(plain_chunks(data, self.codec, self.block_bytes))
        zones = footer.parts(3)
        at, streams = stripe.begin, {}
        for part in footer.parts(1):
            stream = Message(part)
            size = stream.number(3)
            streams[stream.number(2), stream.number(1)] = (at, size)
            at += size
        if at > stripe.footer:
            raise ValueError(f"streams that end behind their stripe at {stripe.footer}")
        parts = [Message(part) for part in footer.parts(2)]
        encodings = tuple((part.number(1), part.number(2)) for part in parts)
        if len(encodings) != len(self.types):
            raise ValueError(f"{len(encodings)} encodings of {len(self.types)} types")
        return StripeFooter(zones[-1].decode() if zones else None, streams, encodings)

    def stream(self, read: Read, place: tuple[int, int]) -> bytes:
        """Return the decompressed bytes of a stream."""
        return plain_chunks(read(*place), self.codec, self.block_bytes)

    def _chunks(self, data: bytes) -> bytes:
        if not self.codec:
            return data
        out = bytearray()
        for start in range(0, len(data), self.block_bytes):
            part = data[start : start + self.block_bytes]
            out += (len(part) << 1 | 1).to_bytes(3, "little") + part
        return bytes(out)


def read_tail(read: Read, size: int, subject: str) -> OrcTail:
    """Read the tail of a file of `size` bytes. read: reads (position, count). subject: the file's path, for messages.

    Two reads: the last 16 KiB, which hold the postscript, as its size is one byte, and the footer.
    These checks precede Arrow: sizes against the file, the tree of types, stripes against
    the end of the data, and their rows against the total.
    """
    count = min(size, _TAIL_BYTES)
    tail = read(size - count, count)
    if count <= len(_MAGIC) or tail[-1] >= count:
        raise ValueError(f"no tail of an ORC file in {size} bytes")
    postscript = Message(tail[-1 - tail[-1] : -1])
    if postscript.parts(8000) != [_MAGIC]:
        raise ValueError("no mark of ORC at the end")
    footer_bytes, metadata_bytes = postscript.number(1), postscript.number(5)
    codec, block_bytes = postscript.number(2), postscript.number(3, 256 << 10)
    if codec not in (0, *_CODECS):
        raise UnsupportedError(
            subject,
            found=f"ORC's codec number {codec}",
            expected="no codec, zlib, snappy, lz4 or zstd",
            action="Read the table with another client, or rewrite it.",
        )
    begin = size - 1 - tail[-1] - footer_bytes
    end = begin - metadata_bytes
    if end < len(_MAGIC) or not 0 < block_bytes < 1 << 23:
        raise ValueError(f"a footer of {footer_bytes} bytes and metadata of {metadata_bytes}")
    footer = Message(plain_chunks(read(begin, footer_bytes), codec, block_bytes))
    types = tuple(_type(part) for part in footer.parts(4))
    _check_tree(types)
    stripes = tuple(_stripe(part, end) for part in footer.parts(3))
    rows = footer.number(6)
    if sum(stripe.rows for stripe in stripes) != rows:
        raise ValueError(f"{rows} rows, and others in the stripes")
    times_of_types = [_times(part) for part in footer.parts(7)]
    times = tuple(times_of_types) if len(times_of_types) == len(types) else (None,) * len(types)
    is_java = footer.number(9) == 0
    return OrcTail(
        end, codec, block_bytes, footer, postscript, types, stripes, rows, times, is_java
    )


def _type(data: bytes) -> OrcType:
    fields = Message(data)
    return OrcType(
        fields.number(1),
        tuple(fields.numbers(2)),
        tuple(name.decode() for name in fields.parts(3)),
        fields.number(5),
        fields.number(6),
    )


def _type_message(kind: OrcType) -> bytes:
    fields: list[tuple[int, int | bytes]] = [(1, kind.kind)]
    if kind.children:
        fields.append((2, b"".join(encoded(child) for child in kind.children)))
    fields += [(3, name.encode()) for name in kind.names]
    if kind.kind == DECIMAL:
        fields += [(5, kind.precision), (6, kind.scale)]
    return message(fields)


def _check_tree(types: Sequence[OrcType]) -> None:
    """Raise unless types are in depth-first order: each before its children, these before its next sibling."""
    if not types or types[0].kind != STRUCT:
        raise ValueError("no row in the tree of types")
    if _after(types, 0, 0) != len(types):
        raise ValueError("types that are of no column")


def _after(types: Sequence[OrcType], index: int, depth: int) -> int:
    """Return the index behind a type and all its parts.

    ORC requires depth-first order, so each child's index is determined; a cycle or a
    shared child fails this test. Each type is visited once.
    """
    kind = types[index]
    expected = len(kind.names) if kind.kind == STRUCT else _CHILDREN.get(kind.kind, 0)
    if depth > _MAX_NESTED or len(kind.children) != expected or kind.kind > INSTANT:
        raise ValueError(f"a type of the kind {kind.kind} with {len(kind.children)} children")
    if kind.kind == UNION or len(set(kind.names)) != len(kind.names):
        raise ValueError("a union, or two fields of one name")
    if kind.kind == DECIMAL and not (
        1 <= kind.precision <= _MAX_DIGITS and kind.scale <= kind.precision
    ):
        raise ValueError(f"a decimal of {kind.precision} digits, scale {kind.scale}")
    next_index = index + 1
    for child in kind.children:
        if child != next_index or child >= len(types):
            raise ValueError(f"the child {child} of type {index}")
        next_index = _after(types, child, depth + 1)
    return next_index


def _stripe(data: bytes, end: int) -> Stripe:
    fields = Message(data)
    footer = fields.number(1) + fields.number(2) + fields.number(3)
    if footer + fields.number(4) > end:
        raise ValueError(f"a stripe that ends behind {end}")
    return Stripe(fields.number(5), fields.number(1), footer, fields.number(4))


def _times(data: bytes) -> tuple[int, int] | None:
    """Return the least and greatest millisecond, from the statistics of one type. Fields 3 and 4 (UTC) count
    if they exist, otherwise 1 and 2 (by the writer's clock). A column without values has (0, 0), which every
    unit holds. None: unknown, so any time is possible.
    """
    fields = Message(data)
    if fields.number(1, 1) == 0:
        return 0, 0
    parts = fields.parts(9)
    if not parts:
        return None
    times = Message(parts[-1])
    bounds = []
    for names in ((3, 1), (4, 2)):
        raw = next((value for name in names if (value := times.optional(name)) is not None), None)
        if raw is None:
            return None
        bounds.append(zigzag(raw))
    return bounds[0], bounds[1]


def plain_chunks(data: bytes, codec: int, block_bytes: int) -> bytes:
    """Decompress the chunks of a footer or a stream.

    Each chunk gives at most block_bytes, so the number of chunks bounds the output, and not the
    sizes that the bytes claim. Raises ValueError for chunks that end too early or do not
    decompress.
    """
    if not codec:
        return data
    out, at = bytearray(), 0
    while at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        at += 3
        chunk = data[at : at + (head >> 1)]
        if at > len(data) or len(chunk) < head >> 1:
            raise ValueError("a chunk that ends behind the footer")
        at += len(chunk)
        out += chunk if head & 1 else _CODECS[codec](chunk, block_bytes)
    return bytes(out)


_CODECS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    1: inflate,
    2: unsnappy,
    4: unlz4,
    5: unzstd,
}
