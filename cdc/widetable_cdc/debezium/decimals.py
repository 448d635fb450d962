"""Decimals that Kafka Connect writes as bytes: the unscaled number, big-endian, in two's complement.

    bytes 04 ce, scale 2       12.30            a decimal128(38, 2), or the text
    17 bytes and more          the text, digit by digit

In: large_binary, and the scale. Out: decimals or texts, exact. Raises nothing. Numbers of up to 15 bytes are converted
all at once; longer ones, which few tables have, one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FAST_BYTES: Final = 15
_WORD: Final = 16


def are_short(values: pa.Array) -> bool:
    """Return whether each number has at most 36 digits, so that it is a decimal128 of any scale up to 36."""
    return (pc.max(pc.binary_length(values)).as_py() or 0) <= _FAST_BYTES


def short_numbers(values: pa.Array, scale: int) -> pa.Array:
    """Return numbers of at most 15 bytes as decimal128(38, scale). No bytes stand for 0."""
    count = len(values)
    offsets = np.frombuffer(values.buffers()[1], np.int64, count + 1, values.offset * 8)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    words = np.zeros((count, _WORD), np.uint8)
    sizes = np.diff(offsets)
    if len(data):
        places = offsets[1:, None] - 1 - np.arange(_WORD)
        is_there = np.arange(_WORD) < sizes[:, None]
        firsts = data[np.minimum(offsets[:-1], len(data) - 1)]
        sign = np.where((sizes > 0) & (firsts >= 128), 255, 0).astype(np.uint8)
        words = np.where(is_there, data[np.maximum(places, 0)], sign[:, None])
    valid = np.packbits(np.asarray(values.is_valid()), bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(np.ascontiguousarray(words))]
    return pa.Array.from_buffers(pa.decimal128(38, scale), count, buffers)


def number_texts(values: pa.Array, scales: npt.NDArray[np.int64]) -> pa.Array:
    """Return numbers as texts with all their digits and without an exponent, each with its scale: large_string."""
    if not are_short(values):
        return _long_texts(values, scales)
    texts = short_numbers(values, 0).cast(pa.large_string())
    out = texts
    for scale in np.unique(scales).tolist():
        if scale:
            moved = _with_point(texts, scale)
            out = pc.if_else(pa.array(scales == scale), moved, out)
    return out


def _with_point(texts: pa.Array, scale: int) -> pa.Array:
    """Return integers with their last `scale` digits behind a point; with zeros behind them if it is below 0."""
    is_zero = pc.equal(texts, "0")
    if scale < 0:
        zeros = pa.scalar("0" * -scale, pa.large_string())
        return pc.if_else(is_zero, texts, _joined(texts, zeros, ""))
    is_negative = pc.starts_with(texts, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(texts, "-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    part = pc.utf8_slice_codeunits(digits, -scale)
    sign = pc.if_else(is_negative, "-", "").cast(pa.large_string())
    return _joined(_joined(sign, whole, ""), part, ".")


def _joined(left: pa.Array, right: pa.Array | pa.Scalar, separator: str) -> pa.Array:
    return pc.binary_join_element_wise(left, right, pa.scalar(separator, pa.large_string()))


def _long_texts(values: pa.Array, scales: npt.NDArray[np.int64]) -> pa.Array:
    texts = [
        None if number is None else _long_text(int.from_bytes(number, "big", signed=True), scale)
        for number, scale in zip(values.to_pylist(), scales.tolist(), strict=True)
    ]
    return pa.array(texts, pa.large_string())


def _long_text(number: int, scale: int) -> str:
    digits, sign = _digits(abs(number)), "-" if number < 0 else ""
    if scale <= 0:
        return sign + digits + "0" * (-scale if number else 0)
    padded = digits.zfill(scale + 1)
    return f"{sign}{padded[:-scale]}.{padded[-scale:]}"


def _digits(number: int) -> str:
    """Return the digits of a number of any size: Python itself refuses to write more than 4,300 of them."""
    half = 4000
    if number < 10**half:
        return str(number)
    high, low = divmod(number, 10**half)
    return _digits(high) + str(low).zfill(half)
