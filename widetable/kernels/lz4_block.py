"""Decompress LZ4 blocks, which do not contain their decompressed size.

    block     = sequence*
    sequence  = token, more*, literals, offset (2 bytes, little-endian), more*      the last ends behind its literals
    token     = 4 bits: literals, 4 bits: bytes of the match - 4; 15: bytes follow that are added, up to one below 255
    the match begins `offset` bytes before the end of the output so far, and may overlap itself

Source: "LZ4 Block Format Description". Kernels raise nothing: -1 means that the bytes are no block.

    22 a b 02 00 10 !        token 22: two literals, a match of 2 + 4; offset 2; token 10: one literal, the end
    abababab!                the match copies "ab", and then the bytes that it has just written
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

Bytes: TypeAlias = npt.NDArray[np.uint8]


def lz4_block(block: Bytes, most: int) -> bytes | None:
    """Return the contents of a block; None when the bytes are no block, or it has more than `most` bytes. block:
    read-only.

    Two passes over the block: its size is computed before anything is allocated, so that a block
    which claims more than `most` costs its own length only. `_fill` relies on the checks of
    `_size`.
    """
    size = _size(block, most)
    if size < 0:
        return None
    out = np.empty(size, np.uint8)
    if size:
        _fill(block, out)
    return out.tobytes()


@kernel
def _length(block: Bytes, at: int, count: Any) -> tuple[Any, int]:
    """Return (length, position behind it or -1)."""
    if count < 15:
        return count, at
    while at < len(block):
        byte = np.int64(block[at])
        at += 1
        count += byte
        if byte < 255:
            return count, at
    return 0, -1


@kernel
def _size(block: Bytes, most: int) -> int:
    """Return the decompressed size of the block, or -1."""
    size = 0
    at = 0
    while at < len(block):
        token: Any = np.int64(block[at])
        count, at = _length(block, at + 1, token >> 4)
        if at < 0 or count > len(block) - at:
            return -1
        size += count
        at += count
        if at == len(block):
            break
        if at + 2 > len(block):
            return -1
        offset = np.int64(block[at]) | np.int64(block[at + 1]) << 8
        count, at = _length(block, at + 2, token & 15)
        # A match may begin anywhere in the output so far, not before it.
        if at < 0 or offset == 0 or offset > size:
            return -1
        size += count + 4
        if size > most:
            return -1
    return size if size <= most else -1


@kernel
def _fill(block: Bytes, out: Bytes) -> None:
    """Decompress the block. out: of the size that `_size` returns."""
    size = 0
    at = 0
    while at < len(block):
        token: Any = np.int64(block[at])
        count, at = _length(block, at + 1, token >> 4)
        for index in range(count):
            out[size + index] = block[at + index]
        size += count
        at += count
        if at == len(block):
            break
        offset = np.int64(block[at]) | np.int64(block[at + 1]) << 8
        count, at = _length(block, at + 2, token & 15)
        for index in range(size, size + count + 4):
            # Copy byte by byte: a match that overlaps itself reads bytes that this loop wrote.
            out[index] = out[index - offset]
        size += count + 4
