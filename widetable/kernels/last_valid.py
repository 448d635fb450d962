"""The last row of each group, and the last one that counts: winners of a merge.

Positions in `order` (merge_order.py) run from 0 to n; group g is order[starts[g] : starts[g + 1]],
oldest row first. Results are row numbers (elements of `order`), int64, one per group; -1 where no
row counts. Nothing is raised.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

Rows: TypeAlias = npt.NDArray[np.int64]


def last_index(order: Rows, starts: Rows) -> Rows:
    """The last row of each group; groups are not empty."""
    return order[starts[1:] - 1]


def last_valid_index(
    order: Rows, starts: Rows, valid: npt.NDArray[np.bool_], floor: Rows | None = None
) -> Rows:
    """The last row of each group for which `valid` (by row number) holds.

    `floor[g]` is the first position in `order` that counts for group g: rows before it are as if
    they were not there. It may lie before the group (no effect) or at its end (no row counts).
    """
    found = np.empty(len(starts) - 1, np.int64)
    _last_valid(order, starts, valid, starts[:-1] if floor is None else floor, found)
    return found


@kernel
def _last_valid(
    order: Rows, starts: Rows, valid: npt.NDArray[np.bool_], floor: Rows, found: Rows
) -> None:
    for group in range(len(found)):
        found[group] = -1
        for position in range(starts[group + 1] - 1, max(starts[group], floor[group]) - 1, -1):
            row = order[position]
            if valid[row]:
                found[group] = row
                break
