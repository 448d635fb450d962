"""Deletion vectors: which rows of a data file do not count any more, because a newer level has their keys.

    file    := version vector*                  version = 1, one byte
    vector  := size body crc                    size, crc (CRC-32 of the body): int32, big-endian
    body    := magic bitmap | magic64 bitmap64  size bytes
    magic   = 1581511376, big-endian;     bitmap = a 32-bit Roaring bitmap in its portable form
    magic64 = 1681511377, little-endian;  bitmap64 = a 64-bit one

The bitmap holds row numbers, from 0 on, in file order. An index manifest has the position of a file's vector (where its
size begins), and its length: that of the body, or with 64 bits of the whole vector. Source: Paimon
`DeletionVectorsIndexFile`, `BitmapDeletionVector`, `Bitmap64DeletionVector`; the RoaringFormatSpec. Raises DamagedError
naming the subject.

Rows 1 and 5 in 32 bits: 32 bytes; the length in an index manifest is 24.

    00000018  5e43f2d0  3a30000001000000 00000100 10000000 01000500   8c77fe55
    size 24   magic     Roaring: cookie, keys, offset, 1 and 5         CRC-32 of the 24 bytes

In 64 bits these rows take 44 bytes, and the length is 44. So a reader takes the size from
the file, and uses the length only to check that both describe the same vector.
"""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from widetable.errors import DamagedError
from widetable.format.decoding_errors import mapped_errors
from widetable.messages.counted import counted
from widetable.storage.kept_inputs import Inputs

# Numbers of rows, ascending, each once.
RowNumbers: TypeAlias = npt.NDArray[np.int64]

VERSION: Final = b"\x01"
_MAGIC: Final = (1581511376).to_bytes(4, "big")
_MAGIC64: Final = (1681511377).to_bytes(4, "little")
_FRAME_BYTES: Final = 8


class DeletedRows(NamedTuple):
    """The place of a data file's vector. path: of the index file; start, length: from the index manifest; rows: how
    many it holds, None when the manifest does not record it.

    A DataFileMeta carries it to the reader of the file (`DataFileMeta.deleted`), and commit
    messages carry it to the driver. It is a place, not the rows: those are read when the data
    file is opened.
    """

    path: str
    start: int
    length: int
    rows: int | None


def encode_vector(rows: RowNumbers, *, wide: bool = False) -> bytes:
    """Encode a vector of these rows. wide: in 64 bits.

    rows: ascending, each once, none at or above 2**32 unless wide. The result is the vector alone:
    the writer of an index file puts VERSION first and records where each vector begins.
    """
    numbers = rows.tolist()
    body = (
        _MAGIC64 + BitMap64(numbers).serialize() if wide else _MAGIC + BitMap(numbers).serialize()
    )
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def recorded_length(vector: bytes) -> int:
    """Return the length of a vector for an index manifest.

    Java counts a 32-bit vector without its size and checksum, a 64-bit one with both. A reader
    with one rule for both would read 8 bytes too many or too few.
    """
    return len(vector) - (0 if vector[4:8] == _MAGIC64 else _FRAME_BYTES)


def deleted_rows(inputs: Inputs, place: DeletedRows) -> RowNumbers:
    """Return the rows of a data file's vector.

    Each call reads and checks the vector; nothing is cached. Raises DamagedError for a place that
    holds no such vector or another number of rows, and NotFoundError and StorageError for the file.
    """
    return decode_vector(vector_bytes(inputs, place), place)


def vector_bytes(inputs: Inputs, place: DeletedRows) -> bytes:
    """Return the vector from its size to its checksum, which is not checked. Raises DamagedError, NotFoundError,
    StorageError.

    Use it to copy a vector into a new index file unchanged.
    It opens the file once and reads twice in a row: the 4 bytes of the size, and the rest.
    """
    with inputs.open_input(place.path) as source, mapped_errors(place.path):
        left = source.size() - place.start - _FRAME_BYTES
        if place.start < 0 or left < 0:
            raise _damaged(place, f"a file of {counted(source.size(), 'byte')}", "a vector")
        source.seek(place.start)
        size = int.from_bytes(source.read(4), "big")
        # Both forms of the length are accepted, because the magic is not read yet. A size
        # beyond the file is refused before memory is allocated for it.
        if place.length - size not in (0, _FRAME_BYTES) or size > left:
            raise _damaged(place, f"a vector of {counted(size, 'byte')}", f"one of {place.length}")
        return size.to_bytes(4, "big") + bytes(source.read(size + 4))


def decode_vector(vector: bytes, place: DeletedRows) -> RowNumbers:
    """Decode the rows of a whole vector. place: where it is from.

    The checksum is checked before the bitmap is parsed, so that the parser of Roaring gets no bytes
    that are known to be wrong.
    """
    body, crc = vector[4:-4], vector[-4:]
    if len(body) != int.from_bytes(vector[:4], "big"):
        raise _damaged(
            place, "a vector that ends too early", f"one of {counted(place.length, 'byte')}"
        )
    if zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise _damaged(place, "a vector with a wrong checksum", "the vector as written")
    decode = {_MAGIC: BitMap.deserialize, _MAGIC64: BitMap64.deserialize}.get(body[:4])
    if decode is None:
        raise _damaged(
            place, f"a vector that begins with {body[:4]!r}", f"{_MAGIC!r} or {_MAGIC64!r}"
        )
    try:
        rows = np.array(decode(body[4:]), np.int64)
    except (ValueError, IndexError, OverflowError) as cause:
        raise _damaged(
            place, f"a bitmap that does not decode: {cause}", "a Roaring bitmap"
        ) from cause
    if place.rows not in (None, len(rows)):
        raise _damaged(place, counted(len(rows), "deleted row"), f"{place.rows}")
    return rows


def _damaged(place: DeletedRows, finding: str, expected: str) -> DamagedError:
    return DamagedError(
        place.path,
        found=f"{finding} at byte {place.start}",
        expected=f"{expected}, as the index manifest says",
        action="Restore the file from a copy of the table, or go back to an older snapshot.",
    )
