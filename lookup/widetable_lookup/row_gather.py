"""Kernels that gather rows from columns which lie, batch after batch, in one mapped file.

In, for all kernels: positions int64[n], ascending rows of the file; cuts int64[batches + 1]: positions cuts[b] to
cuts[b + 1] lie in batch b; starts int64[batches + 1]: the batches' first rows; and per column and batch where its
values begin. One call gathers all columns of a width from all batches. Inner loops are as short as possible: waiting
for memory is slow, and a processor waits for as many values at once as it has rounds of a loop under way (one row in
a hundred: four times as fast as a loop that searches its batch).
Out: new arrays, so that no result keeps the file mapped. Nothing is checked here: the pages were checked before
(page_checks.py).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Positions
from widetable.kernels.jit import kernel

# Spare room after the end of what `copy_bytes` writes.
SPARE_BYTES: Final = 16

Bases = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def any_words(data: Bytes) -> npt.NDArray[np.uint64]:
    """Return the 64-bit words that begin at every byte, seven fewer than bytes, as a view."""
    return np.ndarray((max(0, len(data) - 7),), np.uint64, data.data, strides=(1,))


@kernel
def gather_values(
    source: npt.NDArray[Any],
    bases: Bases,
    starts: Positions,
    cuts: Positions,
    positions: Positions,
    items: int,
    out: npt.NDArray[Any],
) -> None:
    """Gather values. source: the file as unsigned items; bases[c, b] counts them; items: of a value, 1 or 2; out[c, n *
    items].
    """
    for column in range(bases.shape[0]):
        for batch in range(bases.shape[1]):
            if items == 1:
                base = bases[column, batch] - starts[batch]
                for i in range(cuts[batch], cuts[batch + 1]):
                    out[column, i] = source[base + positions[i]]
            else:
                base = bases[column, batch] - 2 * starts[batch]
                for i in range(cuts[batch], cuts[batch + 1]):
                    out[column, 2 * i] = source[base + 2 * positions[i]]
                    out[column, 2 * i + 1] = source[base + 2 * positions[i] + 1]


@kernel
def gather_scattered(
    source: npt.NDArray[Any],
    bases: Bases,
    starts: Positions,
    cuts: Positions,
    positions: Positions,
    items: int,
    block: npt.NDArray[Any],
    out: npt.NDArray[Any],
) -> None:
    """Gather values row by row, for positions that lie far apart; the result is that of `gather_values`.

    The columns of a row are many independent places to wait for at once. bases[b, c]; block[rows, c * items]: room for
    rows on their way, small enough for the processor's first cache.
    """
    rows = block.shape[0]
    for batch in range(bases.shape[0]):
        for first in range(cuts[batch], cuts[batch + 1], rows):
            end = min(first + rows, cuts[batch + 1])
            for i in range(first, end):
                row = (positions[i] - starts[batch]) * items
                for column in range(bases.shape[1]):
                    at = np.uint64(bases[batch, column] + row)
                    if items == 1:
                        block[i - first, column] = source[at]
                    else:
                        block[i - first, 2 * column] = source[at]
                        block[i - first, 2 * column + 1] = source[at + np.uint64(1)]
            for column in range(bases.shape[1]):
                for i in range(first, end):
                    if items == 1:
                        out[column, i] = block[i - first, column]
                    else:
                        out[column, 2 * i] = block[i - first, 2 * column]
                        out[column, 2 * i + 1] = block[i - first, 2 * column + 1]


@kernel
def gather_bits(
    data: Bytes,
    bases: Bases,
    starts: Positions,
    cuts: Positions,
    positions: Positions,
    out: Bytes,
    ones: npt.NDArray[np.int64],
) -> None:
    """Gather bits. bases[c, b]: the bitmap's first byte, -1 for all ones; out[c, (n + 7) // 8], zeroed; ones[c]: how
    many.
    """
    for column in range(bases.shape[0]):
        count = 0
        for batch in range(bases.shape[1]):
            base = bases[column, batch]
            if base < 0:
                for i in range(cuts[batch], cuts[batch + 1]):
                    out[column, i >> 3] |= np.uint8(1 << (i & 7))
                count += cuts[batch + 1] - cuts[batch]
                continue
            for i in range(cuts[batch], cuts[batch + 1]):
                row = positions[i] - starts[batch]
                bit = (np.int64(data[base + (row >> 3)]) >> (row & 7)) & 1
                out[column, i >> 3] |= np.uint8(bit << (i & 7))
                count += bit
        ones[column] = count


@kernel
def locate_bytes(
    offsets: npt.NDArray[np.int32],
    offset_bases: Positions,
    data_bases: Positions,
    starts: Positions,
    cuts: Positions,
    positions: Positions,
    first: Positions,
    end: Positions,
) -> int:
    """Return where the values of one column lie in the file, first[n] and end[n], and their total bytes. offset_bases
    counts 32-bit items.
    """
    size = 0
    for batch in range(len(offset_bases)):
        base = offset_bases[batch] - starts[batch]
        data = data_bases[batch]
        for i in range(cuts[batch], cuts[batch + 1]):
            at = base + positions[i]
            first[i] = data + offsets[at]
            end[i] = data + offsets[at + 1]
            size += end[i] - first[i]
    return size


@kernel
def copy_bytes(
    source: npt.NDArray[np.uint64],
    first: Positions,
    end: Positions,
    offsets: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint64],
) -> None:
    """Copy values end to end: value i goes to offsets[i] .. offsets[i + 1]. source, out: from `any_words`.

    At least sixteen bytes are copied at a time, without a branch for most values. The next value overwrites what is too
    much, and `out` has SPARE_BYTES for the last one. An Arrow file has such bytes at its end. Unsigned numbers save the
    check whether an index counts from the end.
    """
    word = np.uint64(8)
    two = np.uint64(16)
    to = np.uint64(0)
    for i in range(len(first)):
        at = np.uint64(first[i])
        size = np.uint64(end[i]) - at
        offsets[i] = to
        out[to] = source[at]
        out[to + word] = source[at + word]
        k = two
        while k < size:
            out[to + k] = source[at + k]
            k += word
        to += size
    offsets[len(first)] = to
