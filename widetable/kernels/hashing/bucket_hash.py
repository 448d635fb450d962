"""Compute the bucket of a row.

`default`   Murmur3 (32 bit, seed 42) over the whole binary row of the bucket key (binary_rows.py) as
            little-endian 32-bit words; rows are multiples of 8 bytes, so there is no tail.
            bucket = |hash rem n|, rem truncating as in Java.
`mod`       floorMod(value, n) of a single INT or BIGINT key.

All hashes are int32, with Java's wrap-around; functions of hashes raise nothing for n >= 1.

    hash     7   -7   -2**31      n = 4     default   3  3  0
    value    7   -7               n = 4     mod       3  1
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.binary_rows import BinaryRows
from widetable.kernels.jit import kernel

Hashes: TypeAlias = npt.NDArray[np.int32]


def murmur_hash(rows: BinaryRows) -> Hashes:
    """Return one hash per row."""
    hashes = np.empty(len(rows), np.int32)
    _murmur(rows.data.view(np.uint32), rows.offsets, hashes.view(np.uint32))
    return hashes


def bucket_of(hashes: Hashes, num_buckets: int) -> npt.NDArray[np.int32]:
    """Return |hash rem num_buckets|; the remainder has the sign of the hash."""
    # In 64 bits, where the absolute value of every int32 exists; |h rem n| = |h| rem n.
    return (np.abs(hashes.astype(np.int64)) % num_buckets).astype(np.int32)


def mod_bucket(values: npt.NDArray[np.int64], num_buckets: int) -> npt.NDArray[np.int32]:
    """Return the remainder of each value that is not negative."""
    return (values % num_buckets).astype(np.int32)


@kernel
def _murmur(
    words: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint32]
) -> None:
    for row in range(len(hashes)):
        start, end = offsets[row], offsets[row + 1]
        h = np.uint32(42)
        for i in range(start // 4, end // 4):
            # Cast at each step: numba computes in 64 bits what numpy does in 32.
            k = np.uint32(words[i] * np.uint32(0xCC9E2D51))
            k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
            h ^= np.uint32(k * np.uint32(0x1B873593))
            h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
            h = np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))
        h ^= np.uint32(end - start)
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        hashes[row] = h ^ (h >> np.uint32(16))
