"""Avro object container files: the form of manifests and manifest lists.

On disk: never change (Avro 1.11 specification, "Object Container Files"; codec by Paimon
`manifest.compression`):

    file   = "Obj" 0x01 meta sync block*
    meta   = map of text to bytes; avro.schema (JSON) and avro.codec (absent: null)
    sync   = 16 random bytes
    block  = long count, long size, size bytes of count records in the codec, sync

Written with the codec zstandard; null, deflate, snappy and zstandard are read. A field is matched
by its name, whatever the records are called; nullable fields may be missing and unknown fields are
skipped by whoever asks for others.
Logical types are not applied: a timestamp stays its long. All damage raises DamagedError naming the
subject.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from widetable.errors import DamagedError, UnsupportedError

Schema: TypeAlias = dict[str, Any]
Record: TypeAlias = dict[str, Any]

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_BLOCK_BYTES: Final = 1 << 20
_INTEGERS: Final = frozenset({"int", "long"})


def nullable(kind: Any) -> list[Any]:
    """The union of null and `kind`."""
    return ["null", kind]


def field(name: str, kind: Any) -> Schema:
    """One field of a record; a nullable one has the default null, as Java writes it."""
    if isinstance(kind, list):
        return {"name": name, "type": kind, "default": None}
    return {"name": name, "type": kind}


def array(items: Any) -> Schema:
    """An array type."""
    return {"type": "array", "items": items}


def write_avro(schema: Schema, records: Iterable[Record]) -> bytes:
    """A whole container file. records: dictionaries by field name, right by their types (not checked)."""
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec="zstandard", sync_interval=_BLOCK_BYTES)
    return out.getvalue()


def read_avro(data: bytes, expected: Schema, subject: str) -> list[Record]:
    """All records of a container file as dictionaries by the file's field names.

    expected: the schema as we write it; each of its fields that is not nullable must be in the
    file, and each that is in the file must have the expected type. subject: the file's path, for
    messages.
    """
    container = _open(data, subject)
    _check_schema(container.schema, expected, subject)
    # Blocks are handed on without their codec, as one file: the record decoder then sees no logical
    # types and needs no codec of its own.
    plain = _Plain(container)
    try:
        return list(fastavro.reader(io.BytesIO(plain.data)))  # type: ignore[arg-type]
    except _DECODE_ERRORS as cause:
        raise _damaged(subject, f"records that do not decode: {cause!r}") from cause


_DECODE_ERRORS: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    SchemaParseException,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class _Container:
    """schema: the writer's, without logical types. records: how many. payload: all blocks, decompressed."""

    schema: Any
    records: int
    payload: bytes


class _Plain:
    """The container again, as one block in the codec null."""

    def __init__(self, container: _Container) -> None:
        meta = {"avro.schema": json.dumps(container.schema).encode(), "avro.codec": b"null"}
        sync = bytes(_SYNC_BYTES)
        parts = [_MAGIC, _long(len(meta))]
        for key, value in meta.items():
            parts += [_long(len(key)), key.encode(), _long(len(value)), value]
        parts += [_long(0), sync]
        if container.records:
            size = _long(len(container.payload))
            parts += [_long(container.records), size, container.payload, sync]
        self.data: Final = b"".join(parts)


class _Cursor:
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
        raise _damaged(self.subject, found)


def _open(data: bytes, subject: str) -> _Container:
    cursor = _Cursor(data, subject)
    if data[: len(_MAGIC)] != _MAGIC:
        cursor.fail(f"a file that begins with {data[: len(_MAGIC)]!r}, not {_MAGIC!r}")
    cursor.at = len(_MAGIC)
    meta = cursor.map()
    sync = cursor.take(_SYNC_BYTES)
    schema = _parse_schema(meta.get(b"avro.schema", b""), subject)
    decompress = _decompressor(meta.get(b"avro.codec", b"null"), subject)
    records, blocks = 0, []
    while cursor.at < len(data):
        count, size = cursor.long(), cursor.long()
        block = decompress(cursor.take(size), subject)
        # Every record of a manifest starts with a number, so it takes a byte at least.
        if not 0 <= count <= len(block):
            cursor.fail(f"a block of {len(block)} bytes that claims {count} records")
        if cursor.take(_SYNC_BYTES) != sync:
            cursor.fail(f"another sync mark than the header's before offset {cursor.at}")
        records += count
        blocks.append(block)
    return _Container(schema, records, b"".join(blocks))


def _parse_schema(text: bytes, subject: str) -> Any:
    try:
        return _without_logical_types(json.loads(text))
    except (ValueError, RecursionError) as cause:
        raise _damaged(subject, "a header without a schema in JSON") from cause


def _without_logical_types(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: _without_logical_types(v) for k, v in node.items() if k != "logicalType"}
    if isinstance(node, list):
        return [_without_logical_types(item) for item in node]
    return node


def _decompressor(codec: bytes, subject: str) -> Callable[[bytes, str], bytes]:
    found = _DECOMPRESSORS.get(codec)
    if found is None:
        raise UnsupportedError(
            subject,
            found=f"the Avro codec {codec.decode(errors='replace')!r}",
            expected=f"one of {', '.join(name.decode() for name in _DECOMPRESSORS)}",
            action="Write the table's manifests with manifest.compression=zstd.",
        )
    return found


def _plain(block: bytes, subject: str) -> bytes:
    return block


def _inflate(block: bytes, subject: str) -> bytes:
    try:
        return zlib.decompress(block, -zlib.MAX_WBITS)
    except zlib.error as cause:
        raise _damaged(subject, f"a deflate block that does not decompress: {cause}") from cause


def _unzstd(block: bytes, subject: str) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
            return bytes(stream.read())
    except (OSError, pa.ArrowException) as cause:
        raise _damaged(subject, f"a zstd block that does not decompress: {cause}") from cause


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
        raise _damaged(subject, f"a snappy block of {len(block)} bytes that claims {size}")
    try:
        plain = pa.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    except (OSError, pa.ArrowException) as cause:
        raise _damaged(subject, f"a snappy block that does not decompress: {cause}") from cause
    if zlib.crc32(plain) != int.from_bytes(block[-4:], "big"):
        raise _damaged(subject, "a snappy block with a wrong checksum")
    return bytes(plain)


_DECOMPRESSORS: Final[dict[bytes, Callable[[bytes, str], bytes]]] = {
    b"null": _plain,
    b"deflate": _inflate,
    b"snappy": _unsnappy,
    b"zstandard": _unzstd,
}


def _check_schema(found: Any, expected: Schema, subject: str) -> None:
    named: dict[str, Any] = {}
    _collect_named(found, named)
    _check_record(found, expected, named, subject)


def _collect_named(node: Any, named: dict[str, Any]) -> None:
    """Records by name: a later field may refer to an earlier record by its name only."""
    if isinstance(node, list):
        for branch in node:
            _collect_named(branch, named)
    elif isinstance(node, dict):
        if isinstance(node.get("name"), str) and "type" in node and "fields" in node:
            named[node["name"].rpartition(".")[2]] = node
        for key in ("type", "items", "values"):
            _collect_named(node.get(key), named)
        for member in node.get("fields") or ():
            _collect_named(member, named)


def _check_record(found: Any, expected: Schema, named: dict[str, Any], subject: str) -> None:
    if not isinstance(found, dict) or not isinstance(found.get("fields"), list):
        raise _damaged(subject, f"the schema {str(found)[:80]!r} in place of a record")
    fields = {f.get("name"): f.get("type") for f in found["fields"] if isinstance(f, dict)}
    for wanted in expected["fields"]:
        name, optional = wanted["name"], isinstance(wanted["type"], list)
        if name not in fields:
            if not optional:
                raise _damaged(subject, f"no field {name!r}")
            continue
        _check_type(fields[name], wanted["type"], name, named, subject)


def _check_type(found: Any, expected: Any, name: str, named: dict[str, Any], subject: str) -> None:
    found_core, found_null = _core(found)
    expected_core, expected_null = _core(expected)
    if isinstance(found_core, str):
        found_core = named.get(found_core.rpartition(".")[2], found_core)
    if not (found_null and not expected_null):
        if isinstance(expected_core, str):
            both = {str(found_core), expected_core}
            if len(both) == 1 or both == _INTEGERS:
                return
        elif expected_core["type"] == "record":
            _check_record(found_core, expected_core, named, subject)
            return
        elif isinstance(found_core, dict) and found_core.get("type") == "array":
            items = found_core.get("items")
            _check_type(items, expected_core["items"], f"{name} items", named, subject)
            return
    raise _damaged(subject, f"the field {name!r} of type {found}, not {expected}")


def _core(kind: Any) -> tuple[Any, bool]:
    """The type itself and whether it may be null; {"type": "long"} is "long"."""
    may_be_null = False
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        may_be_null = len(others) < len(kind)
        kind = others[0] if len(others) == 1 else kind
    if isinstance(kind, dict) and set(kind) <= {"type", "logicalType"}:
        kind = kind.get("type", kind)
    return kind, may_be_null


def _long(value: int) -> bytes:
    zigzag = value << 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _damaged(subject: str, found: str) -> DamagedError:
    return DamagedError(
        subject,
        found=found,
        expected="an Avro file as Paimon writes its manifests",
        action="Restore the file, or go back to an older snapshot.",
    )
