"""Find the tiles of time windows, and compute sums and extremes of ranges of tiles.

A tile is a row with the start of a span of time. The tiles of one key are consecutive rows, in order of time. A window
is a few ranges of rows, `starts[r, w]` to `ends[r, w]`; an empty range has equal ends.

    rows        0     1     2     3     4          the tiles of two keys: rows 0 to 2, and 3 to 4
    tiles      10    11    12    11    13
    values      2     3     5     1     7
    window     [10, 12) of the first key           starts 0, ends 2        sum 5, greatest 3
    prefix      0     2     5    10    11    18    the sum of rows 0 and 1 is prefix[2] - prefix[0]

Prefix sums are exact only for integers; `wide_prefix` adds in 192 bits, so no sum of rows that fit into memory
overflows. Floats are added from left to right in each window: a NaN, an infinity or a large value before the window
would spoil the differences of prefix sums.

The greatest value of a range takes a constant number of steps: rows lie in blocks of 32. `heads` and `tails` have the
greatest row from the beginning of a block up to a row, and from a row to the end of the block. Level k of `levels` has
the greatest row of 2**k blocks from a block on.

    order            4 9 2 | 7 1 8 | 3 6 5         blocks of 3
    heads            0 1 1 | 3 3 5 | 6 7 7         rows
    tails            1 1 2 | 5 5 5 | 7 7 8
    levels           1 5 7,  1 5                   rows 2 to 7: the greatest of tails[2], level 0 of block 1, heads[7]

Nothing is raised; callers guarantee the lengths.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import frozen
from widetable.kernels.jit import kernel

Order: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]

BLOCK: Final = 32


def first_at_least(
    tiles: Positions, firsts: Positions, counts: Positions, times: Positions, size: int = 0
) -> Positions:
    """Return the first row of each key's rows whose tile is not before a time; the end of the rows if there is none.

    firsts, counts: the rows of the key of each window. times: one for each window. size: how far the tiles of a key are
    apart at least, 0 if nothing is known. Between two tiles there are then few others, and none where none is missing:

        tiles   0  10  20  30  50  60     size 10, time 40: row 4 at most, counted from the first tile
                                          row 3 at least, counted from the last one
    """
    rows = np.empty(len(times), np.int64)
    arrays = _view(tiles), _view(firsts), _view(counts), _view(times)
    _first_at_least(*arrays, np.uint64(size), rows)
    return rows


@kernel
def _first_at_least(
    tiles: Positions,
    firsts: Positions,
    counts: Positions,
    times: Positions,
    size: np.uint64,
    rows: Positions,
) -> None:
    for window in range(len(rows)):
        low = firsts[window]
        high = low + counts[window]
        time = times[window]
        if low < high and size > np.uint64(0):
            first, last = tiles[low], tiles[high - 1]
            if time <= first:
                high = low
            elif time > last:
                low = high
            else:
                # Differences of 64-bit times fit into unsigned numbers of 64 bits.
                apart = np.uint64(time) - np.uint64(first) - np.uint64(1)
                most = apart // size + np.uint64(1)
                left = (np.uint64(last) - np.uint64(time)) // size + np.uint64(1)
                if left < np.uint64(high - low):
                    low = high - np.int64(left)
                if most < np.uint64(high - firsts[window]):
                    high = firsts[window] + np.int64(most)
        while low < high:
            middle = (low + high) // 2
            if tiles[middle] < time:
                low = middle + 1
            else:
                high = middle
        rows[window] = low


def wide_sums(words: Order, starts: Positions, ends: Positions) -> Order:
    """Return the exact sums of integers of 128 bits as uint64[w, 3]: 192 bits, low word first.

    words: two for each row, low word first.
    """
    prefix = np.zeros(3 * (len(words) // 2 + 1), np.uint64)
    _wide_prefix(_view(words), prefix)
    sums = np.zeros((starts.shape[1], 3), np.uint64)
    _wide_differences(prefix, _view(starts), _view(ends), sums)
    return sums


@kernel
def _wide_prefix(words: Order, prefix: Order) -> None:
    zero, one, ones = np.uint64(0), np.uint64(1), ~np.uint64(0)
    low, middle, high = zero, zero, zero
    for row in range(len(words) // 2):
        low2, middle2 = words[2 * row], words[2 * row + 1]
        # The sign is repeated in the third word.
        high2 = ones if middle2 >> np.uint64(63) else zero
        low = low + low2
        carry = one if low < low2 else zero
        middle = middle + carry
        carry = one if middle < carry else zero
        middle = middle + middle2
        carry = carry + (one if middle < middle2 else zero)
        high = high + high2 + carry
        prefix[3 * row + 3], prefix[3 * row + 4], prefix[3 * row + 5] = low, middle, high


@kernel
def _wide_differences(prefix: Order, starts: Positions, ends: Positions, sums: Order) -> None:
    zero, one = np.uint64(0), np.uint64(1)
    for window in range(starts.shape[1]):
        low, middle, high = zero, zero, zero
        for part in range(starts.shape[0]):
            end, start = 3 * ends[part, window], 3 * starts[part, window]
            # Add the end, then subtract the start, word by word with a carry and a borrow.
            low2, middle2 = prefix[end], prefix[end + 1]
            low = low + low2
            carry = one if low < low2 else zero
            middle = middle + carry
            carry = one if middle < carry else zero
            middle = middle + middle2
            carry = carry + (one if middle < middle2 else zero)
            high = high + prefix[end + 2] + carry
            low2, middle2 = prefix[start], prefix[start + 1]
            borrow = one if low < low2 else zero
            low = low - low2
            carry = one if middle < borrow else zero
            middle = middle - borrow
            borrow = carry + (one if middle < middle2 else zero)
            middle = middle - middle2
            high = high - prefix[start + 2] - borrow
        sums[window, 0], sums[window, 1], sums[window, 2] = low, middle, high


def float_sums(values: Floats, starts: Positions, ends: Positions) -> Floats:
    """Return the sums of the ranges of each window, one after another, added from left to right. Empty ones give 0.

    The first value is copied, so that -0.0 stays -0.0.
    """
    sums = np.zeros(starts.shape[1], np.float64)
    _float_sums(_view(values), _view(starts), _view(ends), sums)
    return sums


@kernel
def _float_sums(values: Floats, starts: Positions, ends: Positions, sums: Floats) -> None:
    for window in range(len(sums)):
        total = np.float64(0)
        is_first = True
        for part in range(starts.shape[0]):
            first, end = starts[part, window], ends[part, window]
            if is_first and first < end:
                total = values[first]
                first = first + 1
                is_first = False
            for row in range(first, end):
                total = total + values[row]
        sums[window] = total


def greatest_rows(order: Order, starts: Positions, ends: Positions) -> Positions:
    """Return for each window a row with the greatest `order` in its ranges, -1 for one without rows."""
    heads, tails = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    _block_extremes(_view(order), heads, tails)
    levels = _levels(order, heads)
    rows = np.empty(starts.shape[1], np.int64)
    _greatest_rows(_view(order), heads, tails, levels, _view(starts), _view(ends), rows)
    return rows


def _view(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view, so that kernels compile once."""
    return frozen(np.ascontiguousarray(array)[:])


def _levels(order: Order, heads: Positions) -> Positions:
    """Return int64[levels, blocks]; entries that would go beyond the last block repeat the level before."""
    blocks = -(-len(order) // BLOCK)
    of_blocks = np.minimum(np.arange(1, blocks + 1) * BLOCK, len(order)) - 1
    levels = [heads[of_blocks]]
    span = 1
    while 2 * span <= blocks:
        below = levels[-1]
        level = below.copy()
        one, other = below[: blocks - span], below[span:]
        level[: blocks - span] = np.where(order[one] >= order[other], one, other)
        levels.append(level)
        span *= 2
    return np.stack(levels)


@kernel
def _block_extremes(order: Order, heads: Positions, tails: Positions) -> None:
    for row in range(len(order)):
        begins = row % BLOCK == 0
        heads[row] = row if begins or order[row] > order[heads[row - 1]] else heads[row - 1]
    for row in range(len(order) - 1, -1, -1):
        is_last = row % BLOCK == BLOCK - 1 or row == len(order) - 1
        tails[row] = row if is_last or order[row] >= order[tails[row + 1]] else tails[row + 1]


@kernel
def _greatest_rows(
    order: Order,
    heads: Positions,
    tails: Positions,
    levels: Positions,
    starts: Positions,
    ends: Positions,
    rows: Positions,
) -> None:
    for window in range(len(rows)):
        chosen = np.int64(-1)
        for part in range(starts.shape[0]):
            first, last = starts[part, window], ends[part, window] - 1
            if first > last:
                continue
            block, last_block = first // BLOCK, last // BLOCK
            if block == last_block:
                best = first
                for row in range(first + 1, last + 1):
                    if order[row] > order[best]:
                        best = row
            else:
                best = tails[first]
                if order[heads[last]] > order[best]:
                    best = heads[last]
                between = last_block - block - 1
                if between > 0:
                    level = 0
                    while (2 << level) <= between:
                        level += 1
                    one = levels[level, block + 1]
                    other = levels[level, last_block - (1 << level)]
                    if order[one] > order[best]:
                        best = one
                    if order[other] > order[best]:
                        best = other
            if chosen < 0 or order[best] > order[chosen]:
                chosen = np.int64(best)
        rows[window] = chosen
