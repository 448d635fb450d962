"""Avro object container files: what manifests, manifest lists and some data files are.

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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa

from widetable.errors import UnsupportedError
from widetable.format.avro_nodes import avro_damage

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16


@dataclass(frozen=True)
class AvroHeader:
    """schema: the writer's. end: the position of the first block."""

    schema: Any
    decompress: Callable[[bytes, str], bytes]
    sync: bytes
    end: int


class AvroCursor:
    """Reads Avro's primitives from `data`, raising DamagedError where the bytes end too early."""

    def __init__(self, data: bytes, subject: str) -> None:
        self.data = data
        self.at = 0
        self.subject = subject

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            self.fail(f"{len(self.data) - self.at} bytes left at offset {self.at}, {count} needed")
        part = self.data[self.at : end]
        self.at = end
        return part

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                self.fail(f"a number of more than 64 bits at offset {self.at}")

    def map(self) -> dict[bytes, bytes]:
        entries: dict[bytes, bytes] = {}
        while (count := self.long()) != 0:
            if count < 0:
                count = -count
                self.long()
            if count > len(self.data):
                self.fail(f"a header of {count} entries")
            for _ in range(count):
                key = self.take(self.long())
                entries[key] = self.take(self.long())
        return entries

    def fail(self, found: str) -> NoReturn:
        raise avro_damage(self.subject, found)


def read_header(data: bytes, subject: str) -> AvroHeader:
    """The header of a file that begins with these bytes."""
    cursor = AvroCursor(data, subject)
    if data[: len(MAGIC)] != MAGIC:
        cursor.fail(f"a file that begins with {data[: len(MAGIC)]!r}, not {MAGIC!r}")
    cursor.at = len(MAGIC)
    meta = cursor.map()
    sync = cursor.take(SYNC_BYTES)
    schema = _parse_schema(meta.get(b"avro.schema", b""), subject)
    decompress = _decompressor(meta.get(b"avro.codec", b"null"), subject)
    return AvroHeader(schema, decompress, sync, cursor.at)


def _parse_schema(text: bytes, subject: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise avro_damage(subject, "a header without a schema in JSON") from cause


def _decompressor(codec: bytes, subject: str) -> Callable[[bytes, str], bytes]:
    found = _DECOMPRESSORS.get(codec)
    if found is None:
        raise UnsupportedError(
            subject,
            found=f"the Avro codec {codec.decode(errors='replace')!r}",
            expected=f"one of {', '.join(name.decode() for name in _DECOMPRESSORS)}",
            action="Write the table with manifest.compression=zstd, and avro.codec=zstandard.",
        )
    return found


def _plain(block: bytes, subject: str) -> bytes:
    return block


def _inflate(block: bytes, subject: str) -> bytes:
    try:
        return zlib.decompress(block, -zlib.MAX_WBITS)
    except zlib.error as cause:
        raise avro_damage(subject, f"a deflate block that does not decompress: {cause}") from cause


def _unzstd(block: bytes, subject: str) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
            return bytes(stream.read())
    except (OSError, pa.ArrowException) as cause:
        raise avro_damage(subject, f"a zstd block that does not decompress: {cause}") from cause


def _unsnappy(block: bytes, subject: str) -> bytes:
    """Raw snappy, then the big-endian CRC32 of the plain bytes."""
    size = shift = 0
    for byte in block[:5]:  # the plain size as an unsigned varint
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # Snappy writes 64 bytes for 3 at best: a size beyond that is damage, not a block to make room
    # for.
    if len(block) < 5 or size > 64 * len(block):
        raise avro_damage(subject, f"a snappy block of {len(block)} bytes that claims {size}")
    try:
        plain = pa.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    except (OSError, pa.ArrowException) as cause:
        raise avro_damage(subject, f"a snappy block that does not decompress: {cause}") from cause
    if zlib.crc32(plain) != int.from_bytes(block[-4:], "big"):
        raise avro_damage(subject, "a snappy block with a wrong checksum")
    return bytes(plain)


_DECOMPRESSORS: Final[dict[bytes, Callable[[bytes, str], bytes]]] = {
    b"null": _plain,
    b"deflate": _inflate,
    b"snappy": _unsnappy,
    b"zstandard": _unzstd,
}
