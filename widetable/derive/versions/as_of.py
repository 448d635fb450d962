"""Finds the last version of a key that is not later than a time.

    versions of two keys, by key and order      times 10 30 20 | 15          firsts 0 0 0 3, counts 3 3 3 1
    effective times (`settle`)                        10 20 20 | 15          a time may not be later than one behind it
    as of                                       at 9 ─► -1     at 25 ─► 2    at 30 ─► 2     at 15, second key ─► 3

In: versions of a key beside one another, in order; for each request the place of its key's first version, and how many
there are. Out: places of versions, -1 for none. A search halves the versions of a key: requests need no order, and cost
as many comparisons as the number of versions has bits. Raises nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Positions
from widetable.kernels.jit import kernel

Times = npt.NDArray[np.int64]


def settled(times: Times, firsts: Positions, counts: Positions) -> Times:
    """Return int64[n]: the least time of each version and of all later ones of its key."""
    least = times.copy()
    # A key that is requested often is settled once.
    once = np.unique(firsts[counts > 1], return_index=True)[1]
    _settle(least, firsts[counts > 1][once], counts[counts > 1][once])
    return least


def last_until(times: Times, firsts: Positions, counts: Positions, at: Times) -> Positions:
    """Return int64[m]: the place of the last version whose time is not after `at`. times: ascending within a key."""
    places = np.empty(len(at), np.int64)
    _last_until(times, firsts, counts, at, places)
    return places


@kernel
def _settle(least: Times, firsts: Positions, counts: Positions) -> None:
    for request in range(len(firsts)):
        for row in range(firsts[request] + counts[request] - 2, firsts[request] - 1, -1):
            if least[row] > least[row + 1]:
                least[row] = least[row + 1]


@kernel
def _last_until(
    times: Times, firsts: Positions, counts: Positions, at: Times, places: Positions
) -> None:
    for request in range(len(firsts)):
        low = firsts[request]
        high = low + counts[request]
        while low < high:
            middle = (low + high) // 2
            if times[middle] <= at[request]:
                low = middle + 1
            else:
                high = middle
        places[request] = low - 1 if low > firsts[request] else -1


def last_known_until(
    times: Times, known: Times, firsts: Positions, counts: Positions, at: Times
) -> Positions:
    """Return as `last_until`, but of the versions that were known at `at` only. known: int64[n], in any order."""
    places = np.empty(len(at), np.int64)
    _last_until(times, firsts, counts, at, places)
    _known_until(known, firsts, at, places)
    return places


@kernel
def _known_until(known: Times, firsts: Positions, at: Times, places: Positions) -> None:
    for request in range(len(firsts)):
        row = places[request]
        while row >= firsts[request] and known[row] > at[request]:
            row -= 1
        places[request] = row if row >= firsts[request] else -1
