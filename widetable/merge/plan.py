"""What a merge decided: per key its kind, its sequence number, and for sets of columns the row that each value is from.

Values only; `gather` carries a plan out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from widetable.merge.window import Window
from widetable.row_kind import is_retraction


@dataclass(frozen=True)
class Pick:
    """indices int64[g]: the window's row that the columns of key i come from, -1 for null."""

    columns: tuple[str, ...]
    indices: npt.NDArray[np.int64]


@dataclass(frozen=True)
class MergePlan:
    """One row per key of a window, in key order. kinds int8[g], sequence_numbers int64[g]; each column in one pick."""

    kinds: npt.NDArray[np.int8]
    sequence_numbers: npt.NDArray[np.int64]
    picks: tuple[Pick, ...]

    def without_deletes(self) -> MergePlan:
        """The plan without keys that are not there: those whose kind is -U or -D."""
        gone = is_retraction(self.kinds)
        if not gone.any():
            return self
        kept = np.flatnonzero(~gone)
        return MergePlan(
            self.kinds[kept],
            self.sequence_numbers[kept],
            tuple(Pick(pick.columns, pick.indices[kept]) for pick in self.picks),
        )


def unmerged(window: Window, columns: Sequence[str]) -> MergePlan:
    """The plan of a window with one row per key: each row as it stands."""
    rows = window.order
    return MergePlan(
        window.kinds[rows], window.sequence_numbers[rows], (Pick(tuple(columns), rows),)
    )


class PickList:
    """Collects picks while a plan is made; columns with the very same indices become one pick."""

    def __init__(self) -> None:
        self._picks: dict[int, tuple[list[str], npt.NDArray[np.int64]]] = {}

    def add(self, column: str, indices: npt.NDArray[np.int64]) -> None:
        self._picks.setdefault(id(indices), ([], indices))[0].append(column)

    def picks(self) -> tuple[Pick, ...]:
        return tuple(Pick(tuple(columns), indices) for columns, indices in self._picks.values())
