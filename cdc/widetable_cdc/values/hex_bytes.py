"""Texts of `bytea` become bytes. Pure.

text    "\\\\x" (digit digit)*       with bytea_output=hex; digits are 0-9, a-f, A-F
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.connector import kernel
from widetable_cdc.values.text_bytes import text_bytes
from widetable_cdc.values.text_cast import Cast

_BACKSLASH: Final = ord("\\")
_X: Final = ord("x")
_REASON: Final = "a text that is not bytes in hexadecimal digits behind \\x"


def hex_bytes(texts: pa.Array) -> Cast:
    """Return the bytes of texts, a large_binary array."""
    data, offsets, is_null = text_bytes(texts)
    values = np.empty(max(int(offsets[-1] - offsets[0]) // 2, 0), np.uint8)
    ends = np.zeros(len(texts) + 1, np.int64)
    bad = np.zeros(len(texts), np.bool_)
    _unhex(data, offsets, is_null, values, ends, bad)
    valid = ~(is_null | bad)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(ends), pa.py_buffer(values)]
    return Cast(pa.Array.from_buffers(pa.large_binary(), len(texts), buffers), bad, _REASON)


@kernel
def _digit(byte: int | np.int64) -> int | np.int64:
    """Return the value of a hexadecimal digit, -1 for another byte."""
    if 48 <= byte <= 57:
        return byte - 48
    if 97 <= byte <= 102:
        return byte - 87
    if 65 <= byte <= 70:
        return byte - 55
    return -1


@kernel
def _unhex(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    is_null: npt.NDArray[np.bool_],
    values: npt.NDArray[np.uint8],
    ends: npt.NDArray[np.int64],
    bad: npt.NDArray[np.bool_],
) -> None:
    """Fill values, ends and bad; ends[0] is 0."""
    for row in range(len(is_null)):
        at, end, to = offsets[row], offsets[row + 1], ends[row]
        if not is_null[row]:
            is_bad = (end - at) & 1 != 0 or end - at < 2
            is_bad = is_bad or data[at] != _BACKSLASH or data[at + 1] != _X
            at += 2
            while not is_bad and at < end:
                high, low = _digit(np.int64(data[at])), _digit(np.int64(data[at + 1]))
                is_bad = high < 0 or low < 0
                if not is_bad:
                    values[to] = (high << 4) | low
                    to += 1
                    at += 2
            bad[row] = is_bad
        ends[row + 1] = to
