"""Decode the unsigned integers of an ORC stream: run-length encoding, version 2.

    run           = short-repeat | direct | patched | delta        the upper two bits of its first byte: 0, 1, 2, 3
    short-repeat  = 2 mode, 3 width - 1 (bytes), 3 count - 3; the value
    direct        = 2 mode, 5 code of a width, 9 count - 1; values
    patched       = as direct; 3 base bytes - 1, 5 code of the patch width, 3 gap width - 1, 5 patches; base; values;
                    patches (gap, upper bits)
    delta         = head of direct, code 0: no width; base (varint), first delta (signed varint); sizes of the others

Values are big-endian bits one after another, filled up to a byte. Source: ORC specification v1. Some writers put
negative numbers here: values have 64 bits, and wrap. Kernels raise nothing: -1 means that the bytes are no runs.

    0A 27 10                           short-repeat: 10000 five times
    5E 03 5C A1 AB 1E DE AD BE EF      direct: 23713, 43806, 57005, 48879
    8E 09 2B 21 07 D0 1E 00 14 70 28 32 3C 46 50 5A FC E8     patched: 2030, 2000, 2020, 1000000, 2040 .. 2090
    C6 09 02 02 22 42 42 46            delta: 2, 3, 5, 7, 11, 13, 17, 19, 23, 29
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

# Widths in bits, by code.
_WIDTHS: Final = np.array([*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64], np.int64)
_REPEAT, _DIRECT, _PATCHED = 0, 1, 2


def unsigned_runs(data: Bytes, most: int) -> Numbers | None:
    """Return all values of a stream; None when the bytes are no runs, or have more than `most` values. data:
    read-only.

    Values are int64, wrapped. They are counted before any memory is allocated: a delta run of four bytes
    gives 512 values, which take 1,000 times as much memory.
    """
    count = _count(data, _WIDTHS, most)
    if count < 0:
        return None
    words = np.empty(count, np.uint64)
    if count and _decode(data, _WIDTHS, words) < 0:
        return None
    return words.view(np.int64)


@kernel
def _varint(data: Bytes, at: int) -> tuple[Any, int]:
    """Return (64 bits, position behind them); position -1 for a number without an end."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < len(data) and shift < 70:
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            return value, at
        shift += np.uint64(7)
    return np.uint64(0), -1


@kernel
def _bits(data: Bytes, bit: int, width: int) -> Any:
    """Return the number of `width` bits that begins at a bit."""
    value = np.uint64(0)
    end = bit + width
    while bit < end:
        skip = bit & 7
        taken = min(8 - skip, end - bit)
        part = np.uint64(data[bit >> 3]) >> np.uint64(8 - skip - taken)
        part &= (np.uint64(1) << np.uint64(taken)) - np.uint64(1)
        value = value << np.uint64(taken) | part
        bit += taken
    return value


@kernel
def _entry_width(widths: Numbers, least: int) -> int:
    """Return the width of a patch and its gap together."""
    for width in widths:
        if width >= least:
            return width  # type: ignore[no-any-return]
    return 64


@kernel
def _extent(data: Bytes, at: int, widths: Numbers) -> tuple[Any, Any]:
    """Return (values of the run that begins there, position behind it or -1)."""
    head: Any = np.int64(data[at])
    mode = head >> 6
    if mode == _REPEAT:
        end: Any = at + 2 + (head >> 3 & 7)
        return (head & 7) + 3, (end if end <= len(data) else -1)
    if at + (3 if mode == _DIRECT else 4) > len(data):
        return 0, -1
    count = ((head & 1) << 8 | np.int64(data[at + 1])) + 1
    code = head >> 1 & 31
    end = at + 2
    values = count
    if mode == _PATCHED:
        patch: Any = np.int64(data[at + 2])
        gap: Any = np.int64(data[at + 3])
        entry = _entry_width(widths, widths[patch & 31] + (gap >> 5) + 1)
        end += 3 + (patch >> 5) + (entry * (gap & 31) + 7) // 8
    elif mode != _DIRECT:
        _, end = _varint(data, end)
        if end >= 0:
            _, end = _varint(data, end)
        # Base and first delta encode the first two values. Without a width all deltas equal the
        # first one.
        values = max(count - 2, 0) if code else 0
        if end < 0:
            return 0, -1
    end += (widths[code] * values + 7) // 8
    return count, (end if end <= len(data) else -1)


@kernel
def _count(data: Bytes, widths: Numbers, most: int) -> int:
    """Return the number of values of all runs, or -1, also when there are more than `most`."""
    total = 0
    at = 0
    while at < len(data):
        count, at = _extent(data, at, widths)
        if at < 0:
            return -1
        total += count
        if total > most:
            return -1
    return total


@kernel
def _patch(data: Bytes, at: int, count: int, widths: Numbers, out: Words, row: int) -> int:
    """Decode a patched run; return 0, or -1. at: the position behind the count."""
    width = widths[np.int64(data[at - 2]) >> 1 & 31]
    first: Any = np.int64(data[at])
    second: Any = np.int64(data[at + 1])
    base_bits, patch_width = ((first >> 5) + 1) * 8, widths[first & 31]
    entry_width = _entry_width(widths, patch_width + (second >> 5) + 1)
    base = _bits(data, (at + 2) * 8, base_bits)
    sign = np.uint64(1) << np.uint64(base_bits - 1)
    # The highest bit is a sign and the rest a size, unlike in all other numbers here.
    if base & sign:
        base = sign - base
    at += 2 + base_bits // 8
    for each in range(count):
        out[row + each] = _bits(data, at * 8 + each * width, width)
    at += (width * count + 7) // 8
    index: Any = 0
    for number in range(second & 31):
        entry = _bits(data, at * 8 + number * entry_width, entry_width)
        patch = entry
        # An entry has at most 64 bits, so with 64 bits of patch there is no gap. A gap that is
        # too long for its bits consists of entries that patch nothing.
        if patch_width < 64:
            index += np.int64(entry >> np.uint64(patch_width))
            patch &= (np.uint64(1) << np.uint64(patch_width)) - np.uint64(1)
        if index >= count:
            return -1
        if width < 64:
            out[row + index] |= patch << np.uint64(width)
    for each in range(count):
        out[row + each] += base
    return 0


@kernel
def _deltas(data: Bytes, at: int, count: int, widths: Numbers, out: Words, row: int) -> None:
    """Decode a delta run. at: the position behind the count. The first delta has a sign, which holds for all
    others: they are sizes.
    """
    code = np.int64(data[at - 2]) >> 1 & 31
    value, at = _varint(data, at)
    raw, at = _varint(data, at)
    falls = raw & np.uint64(1) == np.uint64(1)
    step = raw >> np.uint64(1)
    if falls:
        # Zigzag: an odd number n stands for -(n >> 1) - 1.
        step = ~step
    out[row] = value
    for index in range(1, count):
        if code and index > 1:
            size = _bits(data, at * 8 + (index - 2) * widths[code], widths[code])
            step = np.uint64(0) - size if falls else size
        value += step
        out[row + index] = value


@kernel
def _decode(data: Bytes, widths: Numbers, out: Words) -> int:
    """Decode all runs; return 0, or -1. out: room for as many values as `_count` returns."""
    at = 0
    row = 0
    while at < len(data):
        head: Any = np.int64(data[at])
        mode = head >> 6
        count, end = _extent(data, at, widths)
        if mode == _REPEAT:
            value = _bits(data, (at + 1) * 8, (end - at - 1) * 8)
            for index in range(count):
                out[row + index] = value
        elif mode == _DIRECT:
            width = widths[head >> 1 & 31]
            for index in range(count):
                out[row + index] = _bits(data, (at + 2) * 8 + index * width, width)
        elif mode == _PATCHED:
            if _patch(data, at + 2, count, widths, out, row) < 0:
                return -1
        else:
            _deltas(data, at + 2, count, widths, out, row)
        at = end
        row += count
    return 0
