"""Decode base64 of many texts at once.

    "AP8="  ->  00 ff         "A"  ->  bad

RFC 4648, section 4, with padding, as Jackson writes it; nothing but the alphabet. In: large_string. Out: large_binary,
and which texts are bad, which are null then. Raises nothing.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.connector import kernel
from widetable_cdc.debezium.json_fields import frozen
from widetable_cdc.debezium.json_texts import texts_of

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PAD: Final = ord("=")
_BAD: Final = 64


def _digits() -> Bytes:
    digits = np.full(256, _BAD, np.uint8)
    digits[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)
    return frozen(digits)


_DIGITS: Final = _digits()


def decoded(texts: pa.Array) -> tuple[pa.Array, Mask]:
    """Return the bytes that texts stand for, and which texts are no base64."""
    data, ranges = texts_of(texts)
    starts, ends = frozen(ranges.starts), frozen(ranges.ends)
    sizes = np.where(ranges.is_there, (ranges.ends - ranges.starts) // 4 * 3, 0)
    room = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=room[1:])
    out = np.empty(room[-1], np.uint8)
    offsets, is_bad = np.zeros(len(room), np.int64), np.zeros(len(sizes), np.bool_)
    decode_base64(data, starts, ends, _DIGITS, out, offsets, is_bad)
    valid = ranges.is_there & ~is_bad
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.large_binary(), len(valid), buffers), is_bad


@kernel
def decode_base64(
    data: Bytes, starts: Longs, ends: Longs, digits: Bytes, out: Bytes, offsets: Longs, is_bad: Mask
) -> None:
    """Decode each text behind the one before it. A start of -1 has no bytes."""
    to = 0
    for row in range(len(starts)):
        size = ends[row] - starts[row]
        first, at = to, starts[row]
        if starts[row] < 0:
            size = 0
        is_wrong = size % 4 != 0
        if not is_wrong:
            while at < starts[row] + size:
                is_last = at + 4 == ends[row]
                pads = 0
                if is_last and data[at + 3] == _PAD:
                    pads = 2 if data[at + 2] == _PAD else 1
                word = 0
                for i in range(4 - pads):
                    digit = int(digits[data[at + i]])
                    is_wrong = is_wrong or digit == _BAD
                    word = word * 64 + digit % 64
                for _ in range(pads):
                    word = word * 64
                for i in range(3 - pads):
                    out[to] = (word >> (16 - 8 * i)) & 255
                    to += 1
                at += 4
        if is_wrong:
            to = first
        is_bad[row] = is_wrong
        offsets[row + 1] = to
