"""The records of some keys of a window, and what each of them does to the columns that one rule fills.

    rows     0 5 3 | 1 4       records side by side, oldest first (Window); keys with one record are not here
    steps    A A R | A L       what each does: kernels.aggregate
    floor      -1  |  -1       the record that removed a key; it and what is older are forgotten

A *record* is a position in `rows`, and what kernels give; a *row* is a number in the window.
`indices` and `computed` turn what was found for these keys into a source of the whole window,
where the other keys have their only row:

    window.order 0 3 | 1 | 2 4       keys 0 and 2 are folded: rows 0 3 | 2 4, so records 0 1 | 2 3
    positions    0 -1                what a function chose for them
    indices      0 1 -1              with or_last: 0 1 4

Values only; folds are made per window and thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.aggregate import Steps
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.gather import take
from widetable.merge.plan import Computed
from widetable.merge.window import Window

Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Fold:
    """keys int64[c]: their numbers in the window; rows int64[m]; starts int64[c + 1]; floor int64[c]; steps int8[m].

    window: where the values are. floor: as a record, -1 for none. All arrays are by record or
    by key of the fold, so `starts` does not count in the window. composes: of a commit before
    what is older is known; the steps of a key of retractions alone are ADD then, and make one
    retraction of several, which takes back what each of them does.
    """

    window: Window
    keys: Rows
    rows: Rows
    starts: Rows
    floor: Rows
    steps: Steps
    composes: bool = False

    def column(self, name: str) -> pa.Array:
        """The values of a column that some piece has, by record."""
        return self.window.take(name, self.rows)

    def indices(self, positions: Rows, *, or_last: bool) -> Rows:
        """int64[g] row numbers from int64[c] records; other keys are their only record. Where nothing was found: -1, or
        the last record where `or_last`.
        """
        none = self.rows[self.starts[1:] - 1] if or_last else -1
        indices = self.window.last_rows.copy()
        indices[self.keys] = np.where(positions >= 0, self.rows[positions], none)
        return indices

    def computed(self, name: str, values: pa.Array, *, or_last: bool) -> Computed:
        """The source of a column from its values for these keys. or_last: no null, but the last record's value. The
        window forgets the column, which nobody needs now.
        """
        if or_last and values.null_count:
            last = self.window.take(name, self.rows[self.starts[1:] - 1])
            values = one_or_other(valid_of(values), values, last)
        # Where each key's value is: its only row's, or behind all of these, one of `values`.
        places = np.arange(len(self.window.starts) - 1)
        places[self.keys] = len(places) + np.arange(len(self.keys))
        others = self.window.take(name, self.window.last_rows)
        self.window.forget(name)
        return Computed(name, take(pa.concat_arrays([others, values.cast(others.type)]), places))


def spans(fold: Fold) -> zip[tuple[int, int]]:
    """For each key its first record behind the floor, and the end of its records."""
    first: npt.NDArray[Any] = np.maximum(fold.starts[:-1], fold.floor + 1)
    return zip(first.tolist(), fold.starts[1:].tolist(), strict=True)


def one_or_other(chosen: Mask, values: pa.Array, others: pa.Array) -> pa.Array:
    """Of the values those that are chosen, else of the others, which are as many."""
    if chosen.all():
        return values
    places = np.arange(len(values)) + np.where(chosen, 0, len(values))
    return take(pa.concat_arrays([values, others.cast(values.type)]), places)
