"""Kernels that gather rows from columns which lie, batch after batch, in one mapped file.

In, for all of them: starts int64[batches + 1], the batches' first rows; positions int64[n], ascending rows of the file;
and per column and batch where its values begin. One call gathers all columns of a width from all batches.
Out: new arrays, so that nothing that leaves here keeps the file mapped. Nothing is checked: the pages were before
(page_checks.py).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

# Room behind the end of what `copy_bytes` writes.
SPARE_BYTES: Final = 8

Positions = npt.NDArray[np.int64]
Bases = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def any_words(data: Bytes) -> npt.NDArray[np.uint64]:
    """The 64-bit words that begin at every byte; seven fewer than there are bytes. A view."""
    return np.ndarray((max(0, len(data) - 7),), np.uint64, data.data, strides=(1,))


@kernel
def gather_values(
    source: npt.NDArray[Any],
    bases: Bases,
    starts: Positions,
    positions: Positions,
    items: int,
    out: npt.NDArray[Any],
) -> None:
    """source: the file as unsigned items; bases[c, b] counts them; items: of a value; out[c, n * items]."""
    for column in range(bases.shape[0]):
        batch = 0
        for i in range(len(positions)):
            while positions[i] >= starts[batch + 1]:
                batch += 1
            at = bases[column, batch] + (positions[i] - starts[batch]) * items
            for item in range(items):
                out[column, i * items + item] = source[at + item]


@kernel
def gather_bits(
    data: Bytes,
    bases: Bases,
    starts: Positions,
    positions: Positions,
    out: Bytes,
    ones: npt.NDArray[np.int64],
) -> None:
    """bases[c, b]: the bitmap's first byte, -1 for all ones; out[c, (n + 7) // 8], zeroed; ones[c]: how many."""
    for column in range(bases.shape[0]):
        batch = 0
        count = 0
        for i in range(len(positions)):
            while positions[i] >= starts[batch + 1]:
                batch += 1
            base = bases[column, batch]
            bit = 1
            if base >= 0:
                row = positions[i] - starts[batch]
                bit = (np.int64(data[base + (row >> 3)]) >> (row & 7)) & 1
            out[column, i >> 3] |= np.uint8(bit << (i & 7))
            count += bit
        ones[column] = count


@kernel
def locate_bytes(
    offsets: npt.NDArray[np.int32],
    offset_bases: Bases,
    data_bases: Bases,
    starts: Positions,
    positions: Positions,
    first: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
) -> None:
    """Where values of bytes lie in the file: first[c, n] and end[c, n]. offset_bases counts 32-bit items."""
    for column in range(offset_bases.shape[0]):
        batch = 0
        for i in range(len(positions)):
            while positions[i] >= starts[batch + 1]:
                batch += 1
            at = offset_bases[column, batch] + positions[i] - starts[batch]
            first[column, i] = data_bases[column, batch] + offsets[at]
            end[column, i] = data_bases[column, batch] + offsets[at + 1]


@kernel
def copy_bytes(
    source: npt.NDArray[np.uint64],
    first: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint64],
) -> None:
    """Lay values end to end: value i goes to offsets[i] .. offsets[i + 1]. source, out: from `any_words`.

    Eight bytes at a time (two to four times faster than one by one); what is too much is written over by the next
    value, and by the last one into SPARE_BYTES that `out` has for it. An Arrow file has such bytes at its end.
    """
    to = 0
    for i in range(len(first)):
        offsets[i] = to
        size = end[i] - first[i]
        for k in range(0, size, 8):
            out[to + k] = source[first[i] + k]
        to += size
    offsets[len(first)] = to
