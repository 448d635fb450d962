"""Which columns each row of a batch carries: null is a value, and a column that a row does not carry is not written.

    rows                                          sets            of_row
    {"id": 1, "a": 1}                             0: id a         0
    {"id": 1, "b": None}                          1: id b         1
    {"id": 2, "a": None}                                          0

Rows are checked and numbered together, in their order, and cut by their sets afterwards (`ColumnCut`). So a file has
the columns that its rows carry, and the rows of one batch keep their order whatever they carry. Pure. Raises
InvalidError for more than 64 sets in one writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.format.row_batch import SYSTEM_FIELDS
from widetable.merge.column_cut import MAX_SETS


@dataclass(frozen=True)
class RowSets:
    """The set of columns of each row of a batch. sets: each set once; names that are not columns of the table, such as
    that of row kinds, may be among them. of_row int64[n]: the place of each row's set.
    """

    sets: tuple[frozenset[str], ...]
    of_row: npt.NDArray[np.int64]

    @staticmethod
    def of_dicts(rows: Sequence[Iterable[str]], names: Iterable[str]) -> RowSets:
        """Return the sets of names of dicts. names: those of all dicts together."""
        every = frozenset(names)
        if all(len(row) == len(every) for row in rows):  # type: ignore[arg-type]
            return RowSets((every,), np.zeros(len(rows), np.int64))
        # Names in one order are one set, and found sooner than sets; a set in two orders is found here.
        orders: dict[tuple[str, ...], int] = {}
        of_row = np.fromiter((orders.setdefault(tuple(row), len(orders)) for row in rows), np.int64)
        sets: dict[frozenset[str], int] = {}
        places = [sets.setdefault(frozenset(order), len(sets)) for order in orders]
        return RowSets(tuple(sets), np.array(places, np.int64)[of_row])

    def first_rows(self) -> Iterator[tuple[frozenset[str], int]]:
        """Yield each set that a row has, with the place of the first such row."""
        if len(self.sets) == 1:
            yield self.sets[0], 0
            return
        for place, first in zip(*np.unique(self.of_row, return_index=True), strict=True):
            yield self.sets[place], int(first)

    def slice(self, first: int, rows: int) -> RowSets:
        """Return the sets of `rows` rows, from row `first` on."""
        return replace(self, of_row=self.of_row[first : first + rows])

    def kept(self, keep: npt.NDArray[np.bool_] | None) -> RowSets:
        """Return the sets of the rows that a filter keeps. keep: bool[n]; None for all."""
        return self if keep is None else replace(self, of_row=self.of_row[keep])


class ColumnCut:
    """Cuts the row batches of one writer by the columns that their rows carry. columns: table columns of the writer."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._sets: dict[frozenset[str], tuple[str, ...]] = {}

    def parts(self, rows: pa.RecordBatch, sets: RowSets | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each set, in their order, with the columns of the set. sets: None if all rows carry all
        columns.
        """
        if sets is None or not rows.num_rows:
            self._names(frozenset(self._columns))
            yield rows
            return
        places = np.unique(sets.of_row).tolist() if len(sets.sets) > 1 else [0]
        for place in places:
            part = rows.select([*_SYSTEM, *self._names(sets.sets[place])])
            if len(places) > 1:
                part = part.take(pa.array(np.flatnonzero(sets.of_row == place)))
            yield part

    def _names(self, columns: frozenset[str]) -> tuple[str, ...]:
        """Return the columns of a set, in the order of the writer's."""
        names = self._sets.get(columns)
        if names is None:
            names = tuple(name for name in self._columns if name in columns)
            self._sets[columns] = names
            different = len(set(self._sets.values()))
            if different > MAX_SETS:
                raise InvalidError(
                    "rows of one write",
                    found=f"more than {MAX_SETS} different sets of columns",
                    expected=f"at most {MAX_SETS}: each set is written to files of its own",
                    action="Write the rows in several calls, or give rows that differ in a few columns the same ones.",
                )
        return names


_SYSTEM = [field.name for field in SYSTEM_FIELDS]
