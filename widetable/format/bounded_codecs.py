"""Decompressors with a limit on their output: a few damaged bytes may claim to be gigabytes.

In: compressed bytes and the largest number of plain bytes. Out: the plain bytes. Pure. Raises ValueError for bytes
that do not decompress, and TooManyBytes where they exceed the limit.

`most` is the format's limit for a block, not the size that the block claims: damage costs no more
memory and time than that. TooManyBytes is an error of its own because an unusual, but undamaged
file may exceed the limit: callers may refuse it without calling it damaged.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.format.orc.protobuf import varint
from widetable.kernels.arrow_buffers import frozen
from widetable.kernels.lz4_block import lz4_block

# A stream is read in such pieces, because Arrow allocates memory for all requested bytes.
_PIECE_BYTES: Final = 1 << 18


class TooManyBytes(ValueError):
    """A block has more plain bytes than the limit."""


def inflate(data: bytes, most: int) -> bytes:
    """Decompress Deflate, without a header."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = stream.decompress(data, most + 1)
    except zlib.error as cause:
        raise _damage("deflate", str(cause)) from cause
    if len(plain) <= most and not stream.eof:
        raise _damage("deflate", "it ends too early")
    return _within_limit(plain, most)


def unzstd(data: bytes, most: int) -> bytes:
    """Decompress frames of Zstandard."""
    parts, left = list[bytes](), most + 1
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while left and (part := stream.read(min(left, _PIECE_BYTES))):
                parts.append(part)
                left -= len(part)
    # Arrow's MemoryError is an ArrowException, too, but no sign of damage.
    except MemoryError:
        raise
    except (OSError, pa.ArrowException) as cause:
        raise _damage("zstd", str(cause)) from cause
    return _within_limit(b"".join(parts), most)


def unsnappy(data: bytes, most: int) -> bytes:
    """Decompress a block of Snappy, which begins with its plain size."""
    size, _ = varint(data, 0)
    # Snappy compresses 64 bytes to 3 at best: a larger size is damage, and no memory is allocated for it.
    if size > 64 * len(data):
        raise _damage("snappy", f"{len(data)} bytes claim {size}")
    if size > most:
        raise TooManyBytes(f"{size} bytes in a compressed block")
    try:
        return bytes(pa.decompress(data, size, "snappy", asbytes=True))
    except MemoryError:
        raise
    except (OSError, pa.ArrowException) as cause:
        raise _damage("snappy", str(cause)) from cause


def unlz4(data: bytes, most: int) -> bytes:
    """Decompress a block of LZ4, which does not contain its plain size."""
    plain = lz4_block(frozen(np.frombuffer(data, np.uint8)), most)
    if plain is None:
        raise _damage("lz4", f"no block of at most {most} bytes")
    return plain


def _within_limit(plain: bytes, most: int) -> bytes:
    if len(plain) > most:
        raise TooManyBytes(f"more than {most} bytes in a compressed block")
    return plain


def _damage(codec: str, finding: str) -> ValueError:
    return ValueError(f"a {codec} block that does not decompress: {finding}")
