"""Find where sorted runs can be cut so that no key is split.

    run 0    a b c d [e] …     only the heads of runs are loaded, and one row behind each: [e]. Later rows have
    run 1    a b [c] …         keys from there on. So all rows of keys smaller than the smallest such row are loaded:
    run 2    b c f g           a and b of all runs are merged now, the others wait. Where no row is smaller than the
                ^ the cut: c   cut, a head is full of one key, and grows until another key appears

In: the key lanes of k slices laid end to end (slice i is offsets[i] : offsets[i + 1]), each in key order. Nothing is
raised; callers guarantee the lengths.

`rows_before_cut` for the picture, with 1 for a, 2 for b and so on:

    lanes 1 2 3 4 5 | 1 2 3 | 2 3 6 7      more: yes, yes, no      counts 2, 2, 1
    the same lanes                         more: no, no, no        counts 5, 3, 4
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Lanes, Positions
from widetable.kernels.jit import kernel


@kernel
def _compare(lanes: Lanes, row: int, other: int) -> int:
    for lane in range(lanes.shape[1]):
        if lanes[row, lane] != lanes[other, lane]:
            return -1 if lanes[row, lane] < lanes[other, lane] else 1
    return 0


@kernel
def first_disorder(lanes: Lanes, offsets: Positions) -> int:
    """Return the first row whose key is smaller than the one before it in its slice, or -1.

    Equal keys are in order: a run may have several rows of a key. Callers check before they merge rows:
    a damaged file must not give wrong rows.
    """
    for run in range(len(offsets) - 1):
        for row in range(offsets[run] + 1, offsets[run + 1]):
            if _compare(lanes, row, row - 1) < 0:
                return row
    return -1


def rows_before_cut(lanes: Lanes, offsets: Positions, more: npt.NDArray[np.bool_]) -> Positions:
    """Return int64[k]: how many rows of each slice may be merged now.

    more[i]: more rows follow the last row of slice i (which then is not empty). The cut is the smallest last key
    of such slices; rows with smaller keys are counted. Without such a slice all rows are.

    A binary search in each slice costs as many comparisons as its length has bits. All zeros mean
    that the loaded part of the slice with the smallest last key holds one key only.
    """
    counts = np.empty(len(offsets) - 1, np.int64)
    _rows_before_cut(lanes, offsets, more, counts)
    return counts


@kernel
def rows_reached(lanes: Lanes, offsets: Positions) -> int:
    """Return how many rows of the last slice are not behind the smallest last key of the others; no slice is empty.

    The last slice has the first keys of runs that are not open yet (0049), in order; a run must
    be opened before rows of its first key, or behind it, are merged.
    """
    end = offsets[1] - 1
    for run in range(1, len(offsets) - 2):
        if _compare(lanes, offsets[run + 1] - 1, end) < 0:
            end = offsets[run + 1] - 1
    count = 0
    for row in range(offsets[-2], offsets[-1]):
        if _compare(lanes, row, end) > 0:
            break
        count += 1
    return count


@kernel
def _rows_before_cut(
    lanes: Lanes, offsets: Positions, more: npt.NDArray[np.bool_], counts: Positions
) -> None:
    runs = len(counts)
    cut = -1
    for run in range(runs):
        if more[run] and (cut < 0 or _compare(lanes, offsets[run + 1] - 1, cut) < 0):
            cut = offsets[run + 1] - 1
    for run in range(runs):
        low, high = offsets[run], offsets[run + 1]
        while cut >= 0 and low < high:
            middle = (low + high) // 2
            if _compare(lanes, middle, cut) < 0:
                low = middle + 1
            else:
                high = middle
        counts[run] = (low if cut >= 0 else high) - offsets[run]
