"""The last row of each group that counts: winners of a merge.

Positions in `order` (merge_order.py) run from 0 to n; group g is order[starts[g] : starts[g + 1]],
oldest row first. Results are row numbers (elements of `order`), int64, one per group; -1 where no
row counts. Nothing is raised.

    order 0 2 1 3      starts 0 3 4      valid 1 1 0 0      result 1 -1

partial_update.last_marked is the same by positions, with a floor.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

Rows: TypeAlias = npt.NDArray[np.int64]


def last_valid_index(order: Rows, starts: Rows, valid: npt.NDArray[np.bool_]) -> Rows:
    """The last row of each group for which `valid` (by row number) holds."""
    found = np.empty(len(starts) - 1, np.int64)
    _last_valid(order, starts, valid, found)
    return found


@kernel
def _last_valid(order: Rows, starts: Rows, valid: npt.NDArray[np.bool_], found: Rows) -> None:
    for group in range(len(found)):
        found[group] = -1
        for position in range(starts[group + 1] - 1, starts[group] - 1, -1):
            row = order[position]
            if valid[row]:
                found[group] = row
                break
