"""Unsigned integers of an ORC stream: run-length encoding, version 2.

    run           = short-repeat | direct | patched | delta        the upper two bits of its first byte: 0, 1, 2, 3
    short-repeat  = 2 mode, 3 width - 1 (bytes), 3 count - 3; the value
    direct        = 2 mode, 5 code of a width, 9 count - 1; values
    patched       = the same; 3 base bytes - 1, 5 code of the patch width, 3 gap width - 1, 5 patches; base; values;
                    patches (gap, upper bits)
    delta         = the same head, code 0: no width; base (varint), first delta (signed varint); sizes of the others

Values are big-endian bits one after another, filled up to a byte. Source: ORC specification v1. Pure. Raises ValueError
for bytes that are no runs.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from widetable.format.protobuf import varint, zigzag

Numbers = npt.NDArray[np.int64]

_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)


def unsigned_runs(data: bytes) -> Numbers:
    """All values of a stream."""
    found, at = [np.empty(0, np.int64)], 0
    try:
        while at < len(data):
            values, at = _run(data, at)
            found.append(values)
    except IndexError as cause:
        raise ValueError("a run that ends behind its stream") from cause
    return np.concatenate(found)


def _run(data: bytes, at: int) -> tuple[Numbers, int]:
    """(values, the position behind the run)"""
    head = data[at]
    if head >> 6 == 0:
        width = (head >> 3 & 7) + 1
        value = int.from_bytes(_part(data, at + 1, width), "big")
        return np.full((head & 7) + 3, _held(value), np.int64), at + 1 + width
    code, count = head >> 1 & 31, ((head & 1) << 8 | data[at + 1]) + 1
    at += 2
    if head >> 6 == 1:
        return _values(data, at, _WIDTHS[code], count)
    if head >> 6 == 2:
        return _patched(data, at, _WIDTHS[code], count)
    return _deltas(data, at, _WIDTHS[code] if code else 0, count)


def _patched(data: bytes, at: int, width: int, count: int) -> tuple[Numbers, int]:
    base_bytes, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    base = int.from_bytes(_part(data, at + 2, base_bytes), "big")
    sign = 1 << (8 * base_bytes - 1)
    base = sign - base if base & sign else base
    values, at = _values(data, at + 2 + base_bytes, width, count)
    entry = next((each for each in _WIDTHS if each >= patch_width + gap_width), 64)
    found, at = _values(data, at, entry, patches)
    row = 0
    for each in found.tolist():
        row += each >> patch_width
        values[row] |= _held((each & ((1 << patch_width) - 1)) << width)
    return values + _held(base), at


def _deltas(data: bytes, at: int, width: int, count: int) -> tuple[Numbers, int]:
    base, at = varint(data, at)
    raw, at = varint(data, at)
    first = zigzag(raw)
    steps = np.full(count, first, np.int64)
    steps[0] = _held(base)
    if width and count > 2:
        sizes, at = _values(data, at, width, count - 2)
        steps[2:] = sizes if first >= 0 else -sizes
    return np.cumsum(steps), at


def _values(data: bytes, at: int, width: int, count: int) -> tuple[Numbers, int]:
    size = (width * count + 7) // 8
    bits = np.unpackbits(np.frombuffer(_part(data, at, size), np.uint8), count=width * count)
    values = np.zeros(count, np.int64)
    for column in bits.reshape(count, width).T:
        values = values << 1 | column
    return values, at + size


def _part(data: bytes, at: int, size: int) -> bytes:
    if size > len(data) - at:
        raise ValueError("a run that ends behind its stream")
    return data[at : at + size]


def _held(value: int) -> int:
    """64 bits, signed: some writers put negative numbers here."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
