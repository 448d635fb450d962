"""The bucket of a row.

`default`   Murmur3 (32 bit, seed 42) over the whole binary row of the bucket key (binary_rows.py) as
            little-endian 32-bit words; rows are multiples of 8 bytes, so there is no tail.
            bucket = |hash rem n|, rem truncating as in Java.
`mod`       floorMod(value, n) of a single INT or BIGINT key.
`hive`      over the fields f1, f2, ...: (31 * h(f1) + h(f2)) * 31 + ..., without the sign bit, rem n.
            h: null 0; booleans, integers up to 32 bits, dates and times (in milliseconds) their value;
            BIGINT high half xor low half; FLOAT and DOUBLE their bits, the latter as BIGINT, -0.0 as
            0.0, NaNs as one; strings and bytes 31 * h + signed byte; decimals, freed of trailing zeros
            behind the point, 31 * (31-polynomial of the magnitude's 32-bit words, signed) + scale.
            Timestamps have no hash.

All hashes are int32, with Java's wrap-around; functions of hashes raise nothing for n >= 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import (
    ArrowArray,
    ArrowColumn,
    bool_values,
    bytes_view,
    fixed_values,
    is_bytes,
    one_array,
    time_millis,
    validity,
)
from widetable.kernels.binary_rows import BinaryRows
from widetable.kernels.jit import kernel

Hashes: TypeAlias = npt.NDArray[np.int32]
FieldHashes: TypeAlias = npt.NDArray[np.uint32]


def murmur_hash(rows: BinaryRows) -> Hashes:
    """One hash per row."""
    hashes = np.empty(len(rows), np.int32)
    _murmur(rows.data.view(np.uint32), rows.offsets, hashes.view(np.uint32))
    return hashes


def bucket_of(hashes: Hashes, num_buckets: int) -> npt.NDArray[np.int32]:
    """|hash rem num_buckets|, the remainder having the sign of the hash."""
    # In 64 bits, where the absolute value of every int32 exists; |h rem n| = |h| rem n.
    return (np.abs(hashes.astype(np.int64)) % num_buckets).astype(np.int32)


def mod_bucket(values: npt.NDArray[np.int64], num_buckets: int) -> npt.NDArray[np.int32]:
    """The remainder of each value that is not negative."""
    return (values % num_buckets).astype(np.int32)


def hive_hash(columns: Sequence[ArrowColumn]) -> Hashes:
    """One hash per row of the bucket key `columns`. Raises TypeError for a type that has none."""
    total = np.zeros(len(columns[0]), np.uint32)
    for column in columns:
        array = one_array(column)
        hashes = _hive_field(array.type)(array)
        valid = validity(array)
        total *= np.uint32(31)
        total += hashes if valid is None else np.where(valid, hashes, np.uint32(0))
    return total.view(np.int32)


def hive_bucket(hashes: Hashes, num_buckets: int) -> npt.NDArray[np.int32]:
    """The hash without its sign bit, rem num_buckets."""
    return (hashes & np.int32(0x7FFFFFFF)) % np.int32(num_buckets)


def _hive_field(kind: pa.DataType) -> Callable[[ArrowArray], FieldHashes]:
    for is_kind, hashes in _HIVE_BY_TYPE:
        if is_kind(kind):
            return hashes
    raise TypeError(f"bucket key under the hive function: found type {kind}, which has no hash")


def _hive_small(array: ArrowArray) -> FieldHashes:
    signed = fixed_values(array, f"i{array.type.bit_width // 8}")
    return signed.astype(np.int32).view(np.uint32)


def _hive_words(words: npt.NDArray[np.uint64]) -> FieldHashes:
    return (words ^ (words >> np.uint64(32))).astype(np.uint32)


def _hive_float(array: ArrowArray) -> FieldHashes:
    values = fixed_values(array, np.float32) + np.float32(0)  # -0.0 + 0.0 is 0.0
    return np.where(np.isnan(values), np.float32("nan"), values).view(np.uint32)


def _hive_double(array: ArrowArray) -> FieldHashes:
    values = fixed_values(array, np.float64) + 0.0
    return _hive_words(np.where(np.isnan(values), np.float64("nan"), values).view(np.uint64))


def _hive_bytes(array: ArrowArray) -> FieldHashes:
    view = bytes_view(array)
    hashes = np.empty(len(array), np.uint32)
    _polynomials(view.data, view.offsets, hashes)
    return hashes


def _hive_decimal(array: ArrowArray) -> FieldHashes:
    hashes = np.empty(len(array), np.uint32)
    _decimal_hashes(fixed_values(array, np.uint64), array.type.scale, hashes)
    return hashes


_HIVE_BY_TYPE: Sequence[
    tuple[Callable[[pa.DataType], bool], Callable[[ArrowArray], FieldHashes]]
] = (
    (pa.types.is_boolean, lambda array: bool_values(array).astype(np.uint32)),
    (pa.types.is_int64, lambda array: _hive_words(fixed_values(array, np.uint64))),
    (pa.types.is_signed_integer, _hive_small),
    (pa.types.is_date32, _hive_small),
    (pa.types.is_time, lambda array: time_millis(array).view(np.uint32)),
    (pa.types.is_float32, _hive_float),
    (pa.types.is_float64, _hive_double),
    (is_bytes, _hive_bytes),
    (pa.types.is_decimal128, _hive_decimal),
)


@kernel
def _murmur(
    words: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint32]
) -> None:
    for row in range(len(hashes)):
        start, end = offsets[row], offsets[row + 1]
        h = np.uint32(42)
        for i in range(start // 4, end // 4):
            k = np.uint32(words[i] * np.uint32(0xCC9E2D51))
            k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
            h ^= np.uint32(k * np.uint32(0x1B873593))
            h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
            h = np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))
        h ^= np.uint32(end - start)
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        hashes[row] = h ^ (h >> np.uint32(16))


@kernel
def _polynomials(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint32],
) -> None:
    for row in range(len(hashes)):
        h = np.uint32(0)
        for i in range(offsets[row], offsets[row + 1]):
            h = np.uint32(h * np.uint32(31) + np.uint32(np.int8(data[i])))
        hashes[row] = h


@kernel
def _decimal_hashes(
    halves: npt.NDArray[np.uint64], scale: int, hashes: npt.NDArray[np.uint32]
) -> None:
    """`halves`: low word, high word of each value."""
    words = np.empty(4, np.uint64)  # the magnitude, 32 bits each, most significant first
    quotient = np.empty(4, np.uint64)
    low_half = np.uint64(0xFFFFFFFF)
    for row in range(len(hashes)):
        low, high = halves[2 * row], halves[2 * row + 1]
        negative = np.int64(high) < 0
        if negative:
            low = ~low + np.uint64(1)
            high = ~high
            if low == np.uint64(0):
                high = high + np.uint64(1)
        words[0], words[1] = high >> np.uint64(32), high & low_half
        words[2], words[3] = low >> np.uint64(32), low & low_half
        places = scale if low | high else 0
        while places > 0:
            rest = np.uint64(0)
            for i in range(4):
                part = (rest << np.uint64(32)) | words[i]
                quotient[i] = part // np.uint64(10)
                rest = part % np.uint64(10)
            if rest != np.uint64(0):
                break
            for i in range(4):
                words[i] = quotient[i]
            places -= 1
        h = np.uint32(0)
        for i in range(4):
            h = np.uint32(h * np.uint32(31) + np.uint32(words[i]))
        if negative:
            h = np.uint32(~h + np.uint32(1))
        hashes[row] = np.uint32(h * np.uint32(31) + np.uint32(places))
