"""Kernels that find sorted keys among the sorted rows of a mapped file, in its key columns as they lie there.

The search for a key gallops from the place of the key before it, so a few keys touch a few pages, and many keys cost as
much as a merge. One signed column is compared directly. Every other key is compared byte by byte with the encoded key;
the bytes of the row are encoded on the way (memcomparable.py: the two grammars must agree). The fences of the file
(key_fences.py) are searched first, because they lie close together, and rows do not.

In: starts int64[batches + 1], per column and batch where values begin. Out, for every key: low, the first row that is
not smaller (the number of rows: none is), and whether it is equal. The fences and the two rows low - 1 and low prove
that, so it is enough to check their pages (page_checks.py), whatever else the search read.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Positions
from widetable.kernels.jit import kernel

Columns = npt.NDArray[np.int64]
Bases = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

# How the values of a key column become the bytes of memcomparable.py. A wide decimal is two columns: a signed
# and an unsigned one.
SIGNED: Final = 0
UNSIGNED: Final = 1
BOOLEAN: Final = 2
FLOATING: Final = 3
BYTES: Final = 4

# There is a fence before every row that is a multiple of this number.
_FENCE_SHIFT: Final = 5
FENCE_ROWS: Final = 1 << _FENCE_SHIFT


@kernel
def search_numbers(
    source: npt.NDArray[Any],
    bases: Positions,
    starts: Positions,
    keys: npt.NDArray[Any],
    lows: Positions,
    equal: npt.NDArray[np.bool_],
) -> None:
    """Search in one signed column. source: the file as numbers of the width of the column; bases[b] counts them."""
    batch = 0
    low = 0
    for key in range(len(keys)):
        wanted = keys[key]
        # First find the batch whose last row is not smaller, by halves over last rows, then continue
        # in the batch from the place of the key before. Keys ascend, so neither goes back.
        next_batch = _batch_of_number(source, bases, starts, batch, wanted)
        if next_batch > batch:
            batch = next_batch
            low = starts[batch]
        lows[key] = low
        equal[key] = False
        if batch == len(bases):
            continue
        base = bases[batch] - starts[batch]
        low = _first_from(source, base, low, starts[batch + 1], wanted, False)
        lows[key] = low
        equal[key] = source[base + low] == wanted


@kernel
def _batch_of_number(
    source: npt.NDArray[Any], bases: Positions, starts: Positions, batch: int, wanted: int
) -> int:
    """Return the first batch, from `batch` on, whose last row is not smaller."""
    high = batch
    end = len(bases)
    while batch < end:
        if source[bases[high] + starts[high + 1] - 1 - starts[high]] < wanted:
            batch = high + 1
        else:
            end = high
        high = (batch + end) // 2
    return batch


@kernel
def _big_endian(word: np.uint64) -> np.uint64:
    """Return the word with its bytes reversed."""
    low = np.uint64(0x00FF00FF00FF00FF)
    word = (word >> np.uint64(8) & low) | (word & low) << np.uint64(8)
    low = np.uint64(0x0000FFFF0000FFFF)
    word = (word >> np.uint64(16) & low) | (word & low) << np.uint64(16)
    return word >> np.uint64(32) | word << np.uint64(32)


@kernel
def _compare_bytes(
    data: Bytes, words: Words, at: int, end: int, keys: Bytes, key_words: Words, key_at: int
) -> tuple[int, int]:
    """Return (below, equal to or above zero, as the row's value compares with the key's; where the key continues).

    Eight bytes are compared at a time while both are the same and have no zero; then one byte at a time. `(w - ones) &
    ~w & tops` is not zero exactly if a byte of w is zero: such a byte is followed by FF in the key, so the two no
    longer have the same length.
    """
    ones = np.uint64(0x0101010101010101)
    tops = np.uint64(0x8080808080808080)
    while at + 8 <= end:
        word = words[at]
        if word != key_words[key_at] or (word - ones) & ~word & tops:
            break  # they differ, or there is a zero to be escaped
        at += 8
        key_at += 8
    while at < end:
        byte = data[at]
        other = keys[key_at]
        if byte != other:
            return (-1 if byte < other else 1), key_at
        key_at += 1
        at += 1
        if byte == 0:
            # Both have a zero; the row's is followed by FF.
            if keys[key_at] != 0xFF:
                return 1, key_at
            key_at += 1
    # The row's value ends: 00 01.
    if keys[key_at] != 0 or keys[key_at + 1] != 1:
        return -1, key_at
    return 0, key_at + 2


@kernel
def _float_bits(bits: np.uint64, width: int) -> np.uint64:
    sign = np.uint64(1) << np.uint64(8 * width - 1)
    mantissa_bits = np.uint64(52 if width == 8 else 23)
    infinity = (sign - np.uint64(1)) >> mantissa_bits << mantissa_bits
    if (bits & (sign - np.uint64(1))) > infinity:
        # A NaN: the one that memcomparable.py writes for all of them.
        bits = infinity | np.uint64(1) << (mantissa_bits - np.uint64(1))
    if bits & sign:
        return ~bits & (sign | (sign - np.uint64(1)))
    return bits | sign


@kernel
def _compare(
    data: Bytes,
    words: Words,
    columns: Columns,
    bases: Bases,
    batch: int,
    row: int,
    keys: Bytes,
    key_words: Words,
    key_at: int,
) -> int:
    """Compare row `row` of a batch with the encoded key that begins at key_at; the result is that of
    `_compare_bytes`.
    """
    for column in range(columns.shape[1]):
        kind, width, stride = columns[0, column], columns[1, column], columns[2, column]
        base = bases[0, column, batch]
        if kind == BYTES:
            both = words[bases[1, column, batch] + 4 * row]
            first = base + np.int64(both & np.uint64(0xFFFFFFFF))
            end = base + np.int64(both >> np.uint64(32))
            order, key_at = _compare_bytes(data, words, first, end, keys, key_words, key_at)
            if order != 0:
                return order
            continue
        if kind == BOOLEAN:
            bits = np.uint64(data[base + (row >> 3)] >> np.uint8(row & 7) & np.uint8(1))
        else:
            sign = np.uint64(1) << np.uint64(8 * width - 1)
            bits = words[base + row * stride] & (sign | (sign - np.uint64(1)))
            if kind == FLOATING:
                bits = _float_bits(bits, width)
            elif kind == SIGNED:
                bits ^= sign
        wanted = _big_endian(key_words[key_at]) >> np.uint64(64 - 8 * width)
        if bits != wanted:
            return -1 if bits < wanted else 1
        key_at += width
    return 0


# Fences 10 20 20 30 and a key whose word is 20: smaller 1, larger 3. The key lies behind row 0
# and not behind row 96; between them it is looked for from the last key on by strides that
# double, else by halves alone.
@kernel
def search_rows(
    data: Bytes,
    words: Words,
    columns: Columns,
    bases: Bases,
    starts: Positions,
    fences: Words,
    keys: Bytes,
    key_words: Words,
    key_offsets: Positions,
    key_fences: Words,
    lows: Positions,
    equal: npt.NDArray[np.bool_],
) -> None:
    """Search for keys of any types that begin with the bytes that all rows begin with.

    columns[0, c]: how column c is compared; [1, c]: the bytes of a value; [2, c]: from one value to the next. bases, in
    bytes: [0, c, b] of values, [1, c, b] of offsets. keys: encoded, end to end; key_offsets[n + 1]. words, key_words:
    the words that begin at every byte of both (row_gather.any_words), for which keys need spare bytes behind their end.
    fences, key_fences: of every `1 << _FENCE_SHIFT`th row and of the keys.
    """
    rows = starts[len(starts) - 1]
    batch = 0
    low = 0
    smaller = 0  # fences before it are smaller than the key's
    for key in range(len(lows)):
        at = key_offsets[key]
        smaller = _first_from(fences, 0, smaller, len(fences), key_fences[key], False)
        larger = _first_from(fences, 0, smaller, len(fences), key_fences[key], True)
        high = min(larger << _FENCE_SHIFT, rows)
        after = ((smaller - 1) << _FENCE_SHIFT) + 1
        stride = 1 if after <= low else rows  # near the last key, or anywhere between two fences
        if after > low:
            low = after
            batch = _batch_of(starts, batch, low)
        while stride < high - low:
            row = low + stride
            batch_of = _batch_of(starts, batch, row)
            row -= starts[batch_of]
            if _compare(data, words, columns, bases, batch_of, row, keys, key_words, at) >= 0:
                high = low + stride
                break
            low += stride + 1
            stride *= 2
        while low < high:
            middle = (low + high) // 2
            batch_of = _batch_of(starts, batch, middle)
            row = middle - starts[batch_of]
            if _compare(data, words, columns, bases, batch_of, row, keys, key_words, at) < 0:
                low = middle + 1
            else:
                high = middle
        lows[key] = low
        equal[key] = False
        if low < rows:
            batch = _batch_of(starts, batch, low)
            row = low - starts[batch]
            equal[key] = _compare(data, words, columns, bases, batch, row, keys, key_words, at) == 0


@kernel
def _first_from(
    values: npt.NDArray[Any], base: int, low: int, end: int, wanted: Any, is_larger: bool
) -> int:
    """Return the first place, from `low` on and before `end`, whose value is not smaller than the wanted one, or is
    larger: by strides that double, then by halves. base: where place 0 is among the values.
    """
    high = low
    stride = 1
    while high < end and (
        values[base + high] < wanted or (is_larger and values[base + high] == wanted)
    ):
        low = high + 1
        high += stride
        stride *= 2
    high = min(high, end)
    while low < high:
        middle = (low + high) // 2
        value = values[base + middle]
        if value < wanted or (is_larger and value == wanted):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _batch_of(starts: Positions, batch: int, row: int) -> int:
    """Return the batch of a row, which is not before `batch`."""
    while row >= starts[batch + 1]:
        batch += 1
    return batch


@kernel
def equal_rows(
    data: Bytes,
    words: Words,
    columns: Columns,
    bases: Bases,
    starts: Positions,
    keys: Bytes,
    key_words: Words,
    key_offsets: Positions,
    hits: Positions,
    positions: Positions,
) -> bool:
    """Return whether row positions[i] has key hits[i], for all of them; positions ascend. Other arguments: see
    `search_rows`.
    """
    batch = 0
    for i in range(len(hits)):
        batch = _batch_of(starts, batch, positions[i])
        row = positions[i] - starts[batch]
        at = key_offsets[hits[i]]
        if _compare(data, words, columns, bases, batch, row, keys, key_words, at) != 0:
            return False
    return True
