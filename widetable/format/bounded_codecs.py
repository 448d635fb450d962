"""Decompressors that give no more than they are allowed to: a few damaged bytes may claim to be gigabytes.

In: compressed bytes and how many plain ones there are at most. Out: the plain bytes. Pure. Raises ValueError for bytes
that do not decompress, and TooManyBytes where there are more.

`most` is what the format allows a block, not what the block says of itself: damage costs no more
memory and time than that. TooManyBytes is told apart from other errors because an honest, unusual
file may be so: callers may refuse it without calling it damaged.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.format.orc.protobuf import varint
from widetable.kernels.arrow_buffers import frozen
from widetable.kernels.lz4_block import lz4_block

# A stream is read in such pieces, for Arrow makes room for all that it is asked for.
_PIECE_BYTES: Final = 1 << 18


class TooManyBytes(ValueError):
    """More plain bytes than are allowed."""


def inflate(data: bytes, most: int) -> bytes:
    """Deflate, without a header."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = stream.decompress(data, most + 1)
    except zlib.error as cause:
        raise _damage("deflate", str(cause)) from cause
    if len(plain) <= most and not stream.eof:
        raise _damage("deflate", "it ends too early")
    return _held(plain, most)


def unzstd(data: bytes, most: int) -> bytes:
    """Frames of Zstandard."""
    parts, left = list[bytes](), most + 1
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while left and (part := stream.read(min(left, _PIECE_BYTES))):
                parts.append(part)
                left -= len(part)
    # Arrow's is an ArrowException too, but says nothing of the bytes.
    except MemoryError:
        raise
    except (OSError, pa.ArrowException) as cause:
        raise _damage("zstd", str(cause)) from cause
    return _held(b"".join(parts), most)


def unsnappy(data: bytes, most: int) -> bytes:
    """A block of Snappy, which begins with how long it is."""
    size, _ = varint(data, 0)
    # Snappy writes 64 bytes for 3 at best: a size beyond that is damage, not a block to make room for.
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
    """A block of LZ4, which does not say how long it is."""
    plain = lz4_block(frozen(np.frombuffer(data, np.uint8)), most)
    if plain is None:
        raise _damage("lz4", f"no block of at most {most} bytes")
    return plain


def _held(plain: bytes, most: int) -> bytes:
    if len(plain) > most:
        raise TooManyBytes(f"more than {most} bytes in a compressed block")
    return plain


def _damage(codec: str, found: str) -> ValueError:
    return ValueError(f"a {codec} block that does not decompress: {found}")
