"""Hash single values to 64 bits, for the Bloom filters of file indexes.

    numbers    Thomas Wang's hash of 64 bits, with Java's arithmetic shifts
    bytes      XXH64 with the seed 0

Source: Paimon `FastHash`; the XXH64 specification. Results are uint64 in the order of the rows; values at nulls are
undefined. Raises nothing.

    1        5BCA7C69B794F8CE           "a"    D24EC4F1A98C6E5B
    -1       5BCA868437950D03           ""     EF46DB3751D8E999
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.arrow_buffers import BytesView
from widetable.kernels.jit import kernel

ValueHashes: TypeAlias = npt.NDArray[np.uint64]

_PRIME1: Final = 0x9E3779B185EBCA87
_PRIME2: Final = 0xC2B2AE3D27D4EB4F
_PRIME3: Final = 0x165667B19E3779F9
_PRIME4: Final = 0x85EBCA77C2B2AE63
_PRIME5: Final = 0x27D4EB2F165667C5


def number_hashes(numbers: npt.NDArray[Any]) -> ValueHashes:
    """Return the hashes of integers of any width."""
    h: npt.NDArray[np.int64] = numbers.astype(np.int64)
    h = ~h + (h << 21)
    h ^= h >> 24
    h = h + (h << 3) + (h << 8)
    h ^= h >> 14
    h = h + (h << 2) + (h << 4)
    h ^= h >> 28
    h += h << 31
    return h.view(np.uint64)


def bytes_hashes(values: BytesView) -> ValueHashes:
    """Return the hashes of texts or binaries."""
    hashes = np.empty(len(values.offsets) - 1, np.uint64)
    _xxh64(values.data, values.offsets, hashes)
    return hashes


@kernel
def _word(data: npt.NDArray[np.uint8], at: int, count: int) -> np.uint64:
    """Return `count` bytes from `at` on as a little-endian number."""
    word = np.uint64(0)
    for i in range(count):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@kernel
def _turned(h: np.uint64, bits: int) -> np.uint64:
    return np.uint64((h << np.uint64(bits)) | (h >> np.uint64(64 - bits)))


@kernel
def _round(h: np.uint64, word: np.uint64) -> np.uint64:
    mixed = np.uint64(h + np.uint64(word * np.uint64(_PRIME2)))
    return np.uint64(_turned(mixed, 31) * np.uint64(_PRIME1))


@kernel
def _merged(h: np.uint64, lane: np.uint64) -> np.uint64:
    h ^= _round(np.uint64(0), lane)
    return np.uint64(np.uint64(h * np.uint64(_PRIME1)) + np.uint64(_PRIME4))


@kernel
def _xxh64(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
) -> None:
    for row in range(len(hashes)):
        at, end = offsets[row], offsets[row + 1]
        size = np.uint64(end - at)
        if end - at >= 32:
            a = np.uint64(np.uint64(_PRIME1) + np.uint64(_PRIME2))
            b = np.uint64(_PRIME2)
            c = np.uint64(0)
            d = np.uint64(np.uint64(0) - np.uint64(_PRIME1))
            while at + 32 <= end:
                a = _round(a, _word(data, at, 8))
                b = _round(b, _word(data, at + 8, 8))
                c = _round(c, _word(data, at + 16, 8))
                d = _round(d, _word(data, at + 24, 8))
                at += 32
            h = np.uint64(_turned(a, 1) + _turned(b, 7))
            h = np.uint64(np.uint64(h + _turned(c, 12)) + _turned(d, 18))
            h = _merged(_merged(_merged(_merged(h, a), b), c), d)
        else:
            h = np.uint64(_PRIME5)
        h = np.uint64(h + size)
        while at + 8 <= end:
            h ^= _round(np.uint64(0), _word(data, at, 8))
            h = np.uint64(np.uint64(_turned(h, 27) * np.uint64(_PRIME1)) + np.uint64(_PRIME4))
            at += 8
        if at + 4 <= end:
            h ^= np.uint64(_word(data, at, 4) * np.uint64(_PRIME1))
            h = np.uint64(np.uint64(_turned(h, 23) * np.uint64(_PRIME2)) + np.uint64(_PRIME3))
            at += 4
        while at < end:
            h ^= np.uint64(np.uint64(data[at]) * np.uint64(_PRIME5))
            h = np.uint64(_turned(h, 11) * np.uint64(_PRIME1))
            at += 1
        h ^= h >> np.uint64(33)
        h = np.uint64(h * np.uint64(_PRIME2))
        h ^= h >> np.uint64(29)
        h = np.uint64(h * np.uint64(_PRIME3))
        hashes[row] = h ^ (h >> np.uint64(32))
