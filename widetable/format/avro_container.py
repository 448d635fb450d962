"""Avro object container files, the format of manifests, manifest lists and some data files.

On disk: never change (Avro 1.11 specification, "Object Container Files"):

    file   = "Obj" 0x01 meta sync block*
    meta   = map of text to bytes; avro.schema (JSON) and avro.codec (absent: null)
    sync   = 16 random bytes
    block  = long count, long size, size bytes of count records in the codec, sync

Codecs: null, deflate, snappy and zstandard. All damage raises DamagedError naming the subject, another codec
UnsupportedError.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from widetable.errors import UnsupportedError
from widetable.format.avro_nodes import avro_damage
from widetable.format.bounded_codecs import TooManyBytes, inflate, unsnappy, unzstd

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
# The largest decompressed block. Writers close a block after 64,000 bytes and a record (Java, pypaimon) or a megabyte
# and a record (ours), and Avro's own Java reads no larger ones (AVRO-4247).
_MAX_BYTES: Final = 200 << 20


@dataclass(frozen=True)
class AvroHeader:
    """The header of a file. schema: the writer's. schema_text: its JSON. end: the position of the first block."""

    schema: Any
    schema_text: bytes
    decompress: Callable[[bytes, str], bytes]
    sync: bytes
    end: int


class AvroCursor:
    """Reads Avro's primitives from `data`, raising DamagedError where the bytes end too early.

    It serves headers, block heads and short arrays; kernels decode records. `is_over` distinguishes
    bytes that end too early from wrong bytes: a caller that passed only the beginning of a file
    may pass more.
    """

    def __init__(self, data: bytes, subject: str) -> None:
        self.data = data
        self.at = 0
        self.subject = subject
        # Whether a read failed because the data ended.
        self.is_over = False

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            self.is_over = count >= 0
            self.fail(f"{len(self.data) - self.at} bytes left at offset {self.at}, {count} needed")
        part = self.data[self.at : end]
        self.at = end
        return part

    def long(self) -> int:
        """Read a zigzag varint of at most ten bytes."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                self.fail(f"a number of more than 64 bits at offset {self.at}")

    def counts(self, finding: str) -> Iterator[int]:
        """Yield the number of items in each block of an array or map; the caller reads the items in between. finding:
        the text of an error, with places for the count and the length of the data.
        """
        while (count := self.long()) != 0:
            if count < 0:  # the block's size follows, which is not needed
                count = -count
                self.long()
            # An item takes a byte at least: what claims more is refused before it is read.
            if count > len(self.data):
                self.fail(finding.format(count, len(self.data)))
            yield count

    def map(self) -> dict[bytes, bytes]:
        entries: dict[bytes, bytes] = {}
        for count in self.counts("a header of {} entries"):
            for _ in range(count):
                key = self.take(self.long())
                entries[key] = self.take(self.long())
        return entries

    def fail(self, finding: str) -> NoReturn:
        """Raise DamagedError naming the subject."""
        raise avro_damage(self.subject, finding)


def read_header(cursor: AvroCursor) -> AvroHeader:
    """Read the header of a file; the cursor must be at its first byte.

    Raises DamagedError for another magic, a header that ends too early or has no schema, and
    UnsupportedError for an unknown codec. Blocks are not read.
    """
    subject, magic = cursor.subject, cursor.take(len(MAGIC))
    if magic != MAGIC:
        cursor.fail(f"a file that begins with {magic!r}, not {MAGIC!r}")
    meta = cursor.map()
    sync = cursor.take(SYNC_BYTES)
    text = meta.get(b"avro.schema", b"")
    schema = _parse_schema(text, subject)
    decompress = _decompressor(meta.get(b"avro.codec", b"null"), subject)
    return AvroHeader(schema, text, decompress, sync, cursor.at)


def _parse_schema(text: bytes, subject: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise avro_damage(subject, "a header without a schema in JSON") from cause


def _decompressor(codec: bytes, subject: str) -> Callable[[bytes, str], bytes]:
    codec_function = _DECOMPRESSORS.get(codec)
    if codec_function is None:
        raise UnsupportedError(
            subject,
            found=f"the Avro codec {codec.decode(errors='replace')!r}",
            expected=f"one of {', '.join(name.decode() for name in _DECOMPRESSORS)}",
            action="Write the table with manifest.compression=zstd, and avro.codec=zstandard.",
        )

    def decompress(block: bytes, subject: str) -> bytes:
        try:
            return codec_function(block, _MAX_BYTES)
        except TooManyBytes as cause:  # a valid record may be as long
            raise UnsupportedError(
                subject,
                found=str(cause),
                expected=f"blocks of at most {_MAX_BYTES} bytes, as Avro's own Java reads them",
                action="Read the file with another client, or restore it if it was damaged.",
            ) from cause
        except ValueError as cause:
            raise avro_damage(subject, str(cause)) from cause

    return decompress


def _plain(block: bytes, most: int) -> bytes:
    return block


def _unsnappy(block: bytes, most: int) -> bytes:
    """Decompress Snappy, and check the big-endian CRC32 of the plain bytes behind it."""
    plain = unsnappy(block[:-4], most)
    if zlib.crc32(plain) != int.from_bytes(block[-4:], "big"):
        raise ValueError("a snappy block with a wrong checksum")
    return plain


_DECOMPRESSORS: Final[dict[bytes, Callable[[bytes, int], bytes]]] = {
    b"null": _plain,
    b"deflate": inflate,
    b"snappy": _unsnappy,
    b"zstandard": unzstd,
}
