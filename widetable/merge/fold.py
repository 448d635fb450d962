"""The records of some keys of a window, with the step of each: its effect on the columns that one rule fills.

    rows     0 5 3 | 1 4       records side by side, oldest first (Window); keys with one record are not here
    steps    A A R | A L       the effect of each: kernels.aggregate
    floor      -1  |  -1       the record that removed a key; it and older records are ignored

A *record* is a position in `rows`, which kernels return; a *row* is a number in the window.
`indices` and `computed` turn results for these keys into a source of the whole window,
where the other keys have their only row:

    window.order 0 3 | 1 | 2 4       keys 0 and 2 are folded: rows 0 3 | 2 4, so records 0 1 | 2 3
    positions    0 -1                the records that a function chose
    indices      0 1 -1              with or_last: 0 1 4

A fold is a value; it is made per window and not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.aggregate import Steps
from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.gather import take
from widetable.merge.plan import Computed
from widetable.merge.window import Window

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Fold:
    """Some keys with their records. keys int64[c]: their numbers in the window; rows int64[m]; starts int64[c + 1];
    floor int64[c]; steps int8[m].

    window: has the values. floor: a record, -1 for none. All arrays are by record or by key of
    the fold, so `starts` does not count in the window. composes: the records are those of a
    commit, without older ones; the steps of a key of retractions alone are ADD then, which
    combines them to one retraction with the same effect.
    """

    window: Window
    keys: Rows
    rows: Rows
    starts: Rows
    floor: Rows
    steps: Steps
    composes: bool = False

    def column(self, name: str) -> pa.Array:
        """Return the values of a column that some piece has, by record."""
        return self.window.take(name, self.rows)

    def indices(self, positions: Rows, *, or_last: bool) -> Rows:
        """Return int64[g] row numbers from int64[c] records; other keys have their only row. Where a record is -1: -1,
        or the last record with `or_last`.
        """
        none = self.rows[self.starts[1:] - 1] if or_last else -1
        indices = self.window.last_rows.copy()
        indices[self.keys] = np.where(positions >= 0, self.rows[positions], none)
        return indices

    def computed(self, name: str, values: pa.Array, *, or_last: bool) -> Computed:
        """Return the source of a column from its values for these keys. or_last: the last record's value replaces null.
        The window forgets the column, which is not needed any more.
        """
        if or_last and values.null_count:
            last = self.window.take(name, self.rows[self.starts[1:] - 1])
            values = one_or_other(valid_of(values), values, last)
        # The place of each key's value: that of its only row, or, behind all of these, one of `values`.
        places = np.arange(len(self.window.starts) - 1)
        places[self.keys] = len(places) + np.arange(len(self.keys))
        others = self.window.take(name, self.window.last_rows)
        self.window.forget(name)
        return Computed(name, take(pa.concat_arrays([others, values.cast(others.type)]), places))


def spans(fold: Fold) -> zip[tuple[int, int]]:
    """Yield for each key its first record behind the floor, and the end of its records."""
    first: npt.NDArray[Any] = np.maximum(fold.starts[:-1], fold.floor + 1)
    return zip(first.tolist(), fold.starts[1:].tolist(), strict=True)


def one_or_other(chosen: Mask, values: pa.Array, others: pa.Array) -> pa.Array:
    """Return the value where chosen, otherwise the other one; both arrays have equal lengths."""
    if chosen.all():
        return values
    places = np.arange(len(values)) + np.where(chosen, 0, len(values))
    return take(pa.concat_arrays([values, others.cast(values.type)]), places)
