"""The container of the indexes of one data file: a part of its manifest entry, or a file beside it.

On disk: never change (Paimon `FileIndexFormat`; all integers are big-endian):

    container = head body
    head      = magic version head_length columns redundant
    magic     = 1493475289347502, 8 bytes       version, head_length = int32; the length is that of the whole head
    columns   = count (name count (kind start length)*)*            counts, start and length: int32
    name,kind = length bytes                                        length: uint16; Java's modified UTF-8
    redundant = length bytes                                        length: int32; other clients write 0, and skip it
    body      = the indexes one after the other

start counts from the beginning of the container; -1 says that the column, an entry of a map, has no value in the file.
The file is named after its data file, with `.index` behind.

A wrong bit in an index would hide rows, so ours have checksums where other clients skip them:

    redundant = length seal                     seal = "WTCR" page_bytes head_crc page_crc*        uint32 each
    head_crc  = CRC-32 of the head up to `redundant`              page_crc = CRC-32 of each page of the body

Raises DamagedError naming the file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn, Protocol

from widetable.errors import DamagedError
from widetable.format.damaged_file import ACTION, damaged_file
from widetable.messages.counted import counted

INDEX_SUFFIX: Final = ".index"
_MAGIC: Final = 1493475289347502
_VERSION: Final = 1
_EMPTY: Final = -1
_START: Final = struct.Struct(">qii")
_INT: Final = struct.Struct(">i")
_PLACE: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">H")
_SEAL: Final = struct.Struct(">4sII")
_CRC: Final = struct.Struct(">I")
_SEAL_MARK: Final = b"WTCR"
_PAGE_BYTES: Final = 64 << 10
# A table with all of its columns in an index has a shorter head.
_MOST_HEAD_BYTES: Final = 64 << 20


class Bytes(Protocol):
    """Random access to the bytes of a container. size: how many there are."""

    size: int

    def read(self, at: int, count: int) -> bytes:
        """Return `count` bytes; fewer at the end."""


class IndexPart(NamedTuple):
    """One index of one column. start, length: its place in the source. subject: the file, for messages."""

    source: Bytes
    start: int
    length: int
    subject: str

    def read(self, at: int, count: int) -> bytes:
        """Return bytes of the index. Raises DamagedError for a place outside of it."""
        if at < 0 or count < 0 or at + count > self.length:
            self.damaged(f"{counted(count, 'byte')} at {at} of {self.length}", "bytes inside of it")
        data = self.source.read(self.start + at, count)
        if len(data) != count:
            self.damaged(f"{counted(len(data), 'byte')} at {at}", counted(count, "byte"))
        return data

    def damaged(self, finding: str, expected: str) -> NoReturn:
        """Raise the error for an index that is not as expected."""
        raise damaged_index(self.subject, finding, expected)


def damaged_index(subject: str, finding: str, expected: str) -> DamagedError:
    """Return the error for a file index. The rows of the table are there: only the way to them is broken."""
    plain = damaged_file(subject, finding, expected)
    action = (
        "Set the option file-index.read.enabled to false: rows are read without the indexes. "
        f"To mend the index: {ACTION}"
    )
    return DamagedError(subject, found=finding, expected=expected, action=action, code=plain.code)


def encode_container(indexes: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """Encode the indexes of columns by name, each with its kinds, in this order."""
    body = b"".join(data for each in indexes.values() for data in each.values())
    pages = -(-len(body) // _PAGE_BYTES)
    seal_length = _SEAL.size + pages * _CRC.size
    names = [_text(column) for column in indexes]
    kinds = [[_text(kind) for kind in each] for each in indexes.values()]
    head_length = _START.size + 2 * _INT.size + seal_length + sum(map(len, names))
    head_length += len(names) * _INT.size
    head_length += sum(len(kind) + _PLACE.size for each in kinds for kind in each)
    head, start = _START.pack(_MAGIC, _VERSION, head_length) + _INT.pack(len(names)), head_length
    for name, each, of_column in zip(names, kinds, indexes.values(), strict=True):
        head += name + _INT.pack(len(each))
        for kind, data in zip(each, of_column.values(), strict=True):
            head += kind + _PLACE.pack(start, len(data))
            start += len(data)
    seal = _SEAL.pack(_SEAL_MARK, _PAGE_BYTES, zlib.crc32(head))
    for page in range(pages):
        seal += _CRC.pack(zlib.crc32(body[page * _PAGE_BYTES : (page + 1) * _PAGE_BYTES]))
    return head + _INT.pack(len(seal)) + seal + body


def container_parts(source: Bytes, subject: str) -> dict[str, dict[str, IndexPart]]:
    """Return the indexes in a container, by column and kind. It reads the head only. If the container has checksums,
    they are compared when a part is read.
    """
    start = source.read(0, _START.size)
    magic, version, head_length = (
        _START.unpack(start) if len(start) == _START.size else (None, None, 0)
    )
    if magic != _MAGIC or version != _VERSION:
        raise damaged_index(
            subject,
            f"a file that begins with {start.hex()}",
            f"a file index of version {_VERSION}, which begins with {_MAGIC.to_bytes(8, 'big').hex()}",
        )
    if not _START.size < head_length <= min(source.size, _MOST_HEAD_BYTES):
        size = counted(source.size, "byte")
        raise damaged_index(subject, f"a head of {head_length} bytes in {size}", "one inside")
    head = source.read(0, head_length)
    try:
        places, end = _places(head)
        whole = _checked(source, head, end, subject)
    except (struct.error, ValueError) as cause:
        raise damaged_index(subject, f"a head that does not decode: {cause}", "columns") from cause
    parts: dict[str, dict[str, IndexPart]] = {}
    for column, kind, at, length in places:
        if at == _EMPTY:
            continue
        if at < head_length or length < 0 or at + length > source.size:
            finding = f"{counted(length, 'byte')} at {at} of {source.size}"
            raise damaged_index(subject, finding, f"the index {kind!r} of {column!r} inside")
        parts.setdefault(column, {})[kind] = IndexPart(whole, at, length, subject)
    return parts


def _checked(source: Bytes, head: bytes, end: int, subject: str) -> Bytes:
    """Return the source, which compares checksums if the container has any. end: of the columns in the head."""
    (length,) = _INT.unpack_from(head, end)
    if not length:
        return source
    mark, page_bytes, head_crc = _SEAL.unpack_from(head, end + _INT.size)
    if mark != _SEAL_MARK:
        return source  # of a later version of another client
    crcs = [crc for (crc,) in _CRC.iter_unpack(head[end + _INT.size + _SEAL.size :])]
    pages = -(-(source.size - len(head)) // page_bytes) if page_bytes else -1
    if zlib.crc32(head[:end]) != head_crc or pages != len(crcs):
        raise damaged_index(subject, "a head with a wrong checksum", "the head that was written")
    return _CheckedBytes(source, len(head), page_bytes, crcs, subject)


class _CheckedBytes:
    """A container whose body is read in pages, each compared with its checksum once."""

    def __init__(
        self, source: Bytes, body: int, page_bytes: int, crcs: list[int], subject: str
    ) -> None:
        self.size = source.size
        self._source = source
        self._body = body
        self._page_bytes = page_bytes
        self._crcs = crcs
        self._subject = subject
        self._pages: dict[int, bytes] = {}

    def read(self, at: int, count: int) -> bytes:
        if not count:
            return b""
        first = (at - self._body) // self._page_bytes
        last = (at + count - 1 - self._body) // self._page_bytes
        data = b"".join(self._page(page) for page in range(first, last + 1))
        skipped = at - self._body - first * self._page_bytes
        return data[skipped : skipped + count]

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            at = self._body + number * self._page_bytes
            page = self._source.read(at, min(self._page_bytes, self.size - at))
            if zlib.crc32(page) != self._crcs[number]:
                finding = f"a page at byte {at} with a wrong checksum"
                raise damaged_index(self._subject, finding, "the bytes that were written")
            self._pages[number] = page
        return page


def _places(head: bytes) -> tuple[list[tuple[str, str, int, int]], int]:
    """Return (column, kind, start, length) of each index, and where they end. Raises struct.error and ValueError for
    wrong bytes.
    """
    places = []
    (columns,), at = _INT.unpack_from(head, _START.size), _START.size + _INT.size
    for _ in range(columns):
        column, at = _name(head, at)
        (count,) = _INT.unpack_from(head, at)
        at += _INT.size
        for _ in range(count):
            kind, at = _name(head, at)
            places.append((column, kind, *_PLACE.unpack_from(head, at)))
            at += _PLACE.size
    return places, at


def _name(head: bytes, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(head, at)
    end = at + _LENGTH.size + length
    if end > len(head):
        raise ValueError(f"a name of {length} bytes at {at}")
    units = head[at + _LENGTH.size : end].replace(b"\xc0\x80", b"\0")
    pairs = units.decode("utf-8", "surrogatepass")
    return pairs.encode("utf-16", "surrogatepass").decode("utf-16"), end


def _text(name: str) -> bytes:
    """Encode a text as `DataOutput.writeUTF`: each half of a surrogate pair by itself, NUL as two bytes."""
    words = name.encode("utf-16-be")
    halves = "".join(
        chr(int.from_bytes(words[at : at + 2], "big")) for at in range(0, len(words), 2)
    )
    data = halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return _LENGTH.pack(len(data)) + data
