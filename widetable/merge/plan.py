"""The plan of a merge: per key its kind, its sequence number, and the source of each column's value.

    Pick      one row of the window: for rules that replace, keep or remove values; many columns share one
    Computed  values that no row has: for functions that add up or collect; for one column

    window   number   0  1  2  3                    kinds              [+I, +I]
             key      1  2  1  2                    sequence_numbers   [10, 11]
             a        5  7  ·  8                    Pick(k, a)         [0, 3]   a: 5, 8
             b        ·  x  y  ·                    Pick(b)            [2, 1]   b: y, x

A plan is a value; `gather` carries it out. *Places* are positions in a plan, one per key: key i
of the window is place i until `of_keys` leaves some out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.gather import take
from widetable.merge.window import Window
from widetable.schema.row_kind import DELETE, is_retraction


@dataclass(frozen=True)
class Pick:
    """Columns from one row each. indices int64[g]: the window's row that the columns of key i come from, -1 for null.

    The row may lack one of the columns (a narrow file); the value is null then, too.
    """

    columns: tuple[str, ...]
    indices: npt.NDArray[np.int64]

    def of_keys(self, keys: npt.NDArray[np.int64]) -> Pick:
        """Return the pick for a plan of these keys, given by their places in this plan."""
        return Pick(self.columns, self.indices[keys])

    def take(self, window: Window, column: str, keys: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of one of the columns, which some piece of the window holds, for these keys."""
        return window.take(column, self.indices[keys])


@dataclass(frozen=True)
class Computed:
    """A column with values[g] for all keys, in the column's type."""

    column: str
    values: pa.Array

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def of_keys(self, keys: npt.NDArray[np.int64]) -> Computed:
        return Computed(self.column, take(self.values, keys))

    def take(self, window: Window, column: str, keys: npt.NDArray[np.int64]) -> pa.Array:
        return take(self.values, keys)


Source: TypeAlias = Pick | Computed


@dataclass(frozen=True)
class MergePlan:
    """One row per key of a window, in key order. kinds int8[g], sequence_numbers int64[g]; a source per column.

    sources: each column is in at most one; a column that is in none is absent. No array of a plan
    changes after it is made: picks share arrays with the window, and plans with plans.
    """

    kinds: npt.NDArray[np.int8]
    sequence_numbers: npt.NDArray[np.int64]
    sources: tuple[Source, ...]

    def without_deletes(self) -> MergePlan:
        """Return the plan without keys that have no row: those whose kind is -U or -D."""
        gone = is_retraction(self.kinds)
        return self.of_keys(np.flatnonzero(~gone)) if gone.any() else self

    def deleted(self, keys: npt.NDArray[np.int64]) -> MergePlan:
        """Return the plan in which the rows of these keys, given by places, are -D."""
        if not len(keys):
            return self
        kinds = self.kinds.copy()
        kinds[keys] = DELETE
        return replace(self, kinds=kinds)

    def without(self, keys: npt.NDArray[np.int64]) -> MergePlan:
        """Return the plan without these keys, given by places."""
        return self.of_keys(np.delete(np.arange(len(self.kinds)), keys)) if len(keys) else self

    def of_keys(self, kept: npt.NDArray[np.int64]) -> MergePlan:
        """Return the plan of these keys, given by places."""
        return MergePlan(
            self.kinds[kept],
            self.sequence_numbers[kept],
            tuple(source.of_keys(kept) for source in self.sources),
        )


def unmerged(window: Window, columns: Sequence[str], rows: npt.NDArray[np.int64]) -> MergePlan:
    """Return the plan that keeps these rows of a window as they are."""
    pick = Pick(tuple(columns), rows)
    return MergePlan(window.kinds[rows], window.sequence_numbers[rows], (pick,))


class SourceList:
    """Collects sources while a plan is made; columns with the very same indices become one pick.

    Arrays are compared by identity: comparing values would cost as much as the merge. A rule that
    decides for several columns passes one array, and `gather` then computes the positions of its
    rows once. The list keeps each array, so no id is reused meanwhile.
    """

    def __init__(self) -> None:
        self._picks: dict[int, tuple[list[str], npt.NDArray[np.int64]]] = {}
        self._computed: list[Computed] = []

    def add(self, column: str, source: npt.NDArray[np.int64] | Computed) -> None:
        """Add a column. source: its values, or the indices of a pick."""
        if isinstance(source, Computed):
            self._computed.append(source)
        else:
            self._picks.setdefault(id(source), ([], source))[0].append(column)

    def sources(self) -> tuple[Source, ...]:
        picks = (Pick(tuple(columns), indices) for columns, indices in self._picks.values())
        return (*picks, *self._computed)
