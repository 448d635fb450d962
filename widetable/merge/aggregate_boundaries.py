"""Where functions must keep records of a commit apart (docs/decisions/0003, 0031).

A commit's records collapse to one per key before the older records are known. That is exact for adds alone, and for
retractions alone, which make one retraction. Where adds and retractions alternate, one record cannot say both:

* last_non_null_value: a retraction that comes last is kept apart. Otherwise the last value is enough.
* product, merge_map, nested_update: a retraction of a value is kept apart from adds on both sides. `collect` too,
except
  from an add behind it: a -U and its +U in one commit are the +U, as in Paimon.
* merge_map_with_keytime: records behind an entry without a value, which removes older entries, are kept apart.
* nested_update with a limit: where the lists of a commit are longer than the limit, retractions are kept apart, because
  the limit does not apply to the rows that they retract; so are rows with a nested key, because a row beyond the limit
  still replaces an older row of its key.
* In a sequence group, functions that depend on order: only the older records show which records are late, so each
  record is kept apart.

Sums are equal either way (FLOAT and DOUBLE are rounded as the commit's own sum).

    commit of one key      +I 5   -U 5   +U 3              +I 5   -D 5
    sum                    +I 3                            +I 0
    product                +I 5 ║ -U 5 ║ +U 3              +I 5 ║ -D 5
    last_non_null_value    +I 3                            +I 5 ║ -D 5
    collect                +I [5] ║ +I [3]                 +I [5] ║ -D [5]
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.partial_update import last_marked
from widetable.merge.aggregate_columns import applies_retractions
from widetable.merge.aggregate_function import AggregateColumn, Retraction
from widetable.merge.aggregate_functions import function_of
from widetable.merge.window import Window
from widetable.schema.row_kind import is_retraction


def aggregate_boundaries(window: Window, columns: Iterable[AggregateColumn]) -> Mask:
    """Return bool[m] by position in `window.order`: the boundaries that functions need. columns: those that functions
    fill.
    """
    boundaries = np.zeros(len(window.order), np.bool_)
    retractions = is_retraction(window.kinds[window.order])
    for column in columns:
        if not window.holders(column.name):
            continue
        function = function_of(column)
        if function.boundaries is not None:
            boundaries |= function.boundaries(window, column, retractions)
        effect = function.retraction
        if not (retractions.any() and applies_retractions(column)) or effect is Retraction.MERGED:
            continue
        valid = valid_of(window.take(column.name, window.order))
        if effect is Retraction.LAST:
            boundaries |= _around_last_word(window, retractions, valid)
            continue
        retracted_values = retractions & valid
        boundaries |= _before_retractions(window, retractions, retracted_values)
        if effect is Retraction.APART:
            boundaries |= _behind_retractions(window, retractions, retracted_values)
    return boundaries


def has_ordered_function(columns: Iterable[AggregateColumn]) -> bool:
    """Whether a function of a sequence group depends on which records are late."""
    return any(function_of(column).by_order(column) for column in columns)


def _around_last_word(window: Window, retractions: Mask, valid: Mask) -> Mask:
    """Mark the last record with a value, and the next one, where the record with the value is a retraction in a key
    with adds.
    """
    keys = len(window.starts) - 1
    none = np.full(keys, -1, np.int64)
    last = last_marked(window.starts, none, valid)
    has_add = last_marked(window.starts, none, ~retractions) >= 0
    positions = last[(last >= 0) & has_add & retractions[last]]
    boundaries = np.zeros(len(retractions) + 1, np.bool_)
    boundaries[positions] = boundaries[positions + 1] = True
    return boundaries[:-1]


def _before_retractions(window: Window, retractions: Mask, retracted: Mask) -> Mask:
    """Mark the first of each series of records that retract a value, in keys that have an add before it.

    Retractions without an add before them collapse to one retraction, so they need no boundary.
    """
    adds = np.cumsum(~retractions)
    # Adds of the key up to each row: the count so far, less the count before the key.
    firsts = window.starts[:-1]
    before: npt.NDArray[np.int64] = adds - window.by_row(adds[firsts] - ~retractions[firsts])
    boundaries: Mask = retracted & (before > 0)
    boundaries[1:] &= ~retracted[:-1]
    return boundaries


def _behind_retractions(window: Window, retractions: Mask, retracted: Mask) -> Mask:
    """Mark the first add behind records that retract a value.

    Further adds follow it without a boundary of their own. `since` is the add before each row, or the
    position before the key's first row. An add is marked when such a retraction lies between the
    two; so the add is the first one behind the retraction.
    """
    waiting = np.cumsum(retracted)
    last_add = np.maximum.accumulate(np.where(retractions, -1, np.arange(len(retracted))))
    previous = np.append(-1, last_add[:-1])
    first = window.by_row(window.starts[:-1])
    since = np.maximum(previous, first - 1)
    passed: npt.NDArray[np.int64] = waiting - np.where(since >= 0, waiting[since], 0)
    boundaries: Mask = ~retractions & (passed > 0)
    return boundaries
