"""Where functions must keep records of a commit apart (docs/decisions/0003, 0031).

A commit's records become one per key before it is known what is older. That is exact for adds, and for retractions
alone, which make one retraction. Where adds and retractions alternate, one record cannot say both:

* last_non_null_value: when a retraction has the last word, it stands alone. Else the last value says it all.
* product, merge_map, nested_update: a retraction of a value stands apart from adds on both sides. `collect` too, but
  for an add behind it: a -U and its +U in one commit are the +U, as in Paimon.
* merge_map_with_keytime: what comes behind an entry without a value, which removes what is older, stands apart.
* nested_update with a limit: where the lists of a commit are longer than it, retractions stand apart, for what they
  take back has no limit; and rows by key, for one that is behind the limit still replaces an older one of its key.
* In a sequence group, functions that go by order: which of the records are late is known only with what is older, so
  each stands alone.

Sums are the same either way (their rounding, of FLOAT and DOUBLE, is that of the commit's own sum).

    commit of one key      +I 5   -U 5   +U 3              +I 5   -D 5
    sum                    +I 3                            +I 0
    product                +I 5 ║ -U 5 ║ +U 3              +I 5 ║ -D 5
    last_non_null_value    +I 3                            +I 5 ║ -D 5
    collect                +I [5] ║ +I [3]                 +I [5] ║ -D [5]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.partial_update import last_marked
from widetable.merge.aggregate_function import (
    COUNT_LIMIT,
    IGNORE_RETRACT,
    NESTED_KEY,
    AggregateColumn,
    is_limited,
)
from widetable.merge.aggregate_functions import LAST_NON_NULL_VALUE, takes_back
from widetable.merge.fold import Mask
from widetable.merge.value_codes import offsets_of
from widetable.merge.window import Window
from widetable.schema.row_kind import is_retraction

# A retraction of a value is no add of another one: division, and removal of entries or rows.
_APART: Final = ("product", "merge_map", "nested_update")
# Late values of others are as good as values in order.
_BY_ORDER: Final = (
    "first_value",
    "first_non_null_value",
    "first_not_null_value",
    LAST_NON_NULL_VALUE,
    "listagg",
    "merge_map",
    "merge_map_with_keytime",
    "nested_update",
    "nested_partial_update",
)


def aggregate_barriers(window: Window, columns: Iterable[AggregateColumn]) -> Mask:
    """bool[m] by position in `window.order`. columns: that functions fill."""
    barriers = np.zeros(len(window.order), np.bool_)
    retractions = is_retraction(window.kinds[window.order])
    for column in columns:
        if not window.holders(column.name):
            continue
        if column.function == "merge_map_with_keytime":
            barriers[1:] |= _removes_entries(window, column.name)[:-1]
        if is_limited(column):
            apart = retractions | bool(column.get(NESTED_KEY))
            barriers |= apart & _is_beyond_limit(window, column)
        if not retractions.any() or not takes_back(column):
            continue
        valid = valid_of(window.take(column.name, window.order))
        if column.function == LAST_NON_NULL_VALUE:
            barriers |= _around_last_word(window, retractions, valid)
        elif column.function in (*_APART, "collect"):
            held = retractions & valid
            barriers |= _before_retractions(window, retractions, held)
            if column.function != "collect":
                barriers |= _behind_retractions(window, retractions, held)
    return barriers


def _removes_entries(window: Window, name: str) -> Mask:
    """Records with an entry that has no value: it removes what is older, and what comes behind begins anew."""
    maps = window.take(name, window.order)
    offsets, is_gone = offsets_of(maps), ~valid_of(maps.items)
    gone = np.append(0, np.cumsum(is_gone))
    found: Mask = (gone[offsets[1:]] > gone[offsets[:-1]]) & valid_of(maps)
    return found


def _is_beyond_limit(window: Window, column: AggregateColumn) -> Mask:
    """Records of keys that have more rows in all of their lists than one list may have."""
    lists = window.take(column.name, window.order)
    rows = np.where(valid_of(lists), np.diff(offsets_of(lists)), 0)
    is_beyond = np.add.reduceat(rows, window.starts[:-1]) > column.get(COUNT_LIMIT)
    return window.by_row(is_beyond)


def goes_by_order(columns: Iterable[AggregateColumn]) -> bool:
    """Whether some function of a sequence group depends on which records are late."""
    return any(
        column.function in _BY_ORDER
        or (column.function == "last_value" and column.get(IGNORE_RETRACT))
        for column in columns
    )


def _around_last_word(window: Window, retractions: Mask, valid: Mask) -> Mask:
    """The last record with a value, and the one behind it, where it is a retraction in a key with adds."""
    keys = len(window.starts) - 1
    none = np.full(keys, -1, np.int64)
    last = last_marked(window.starts, none, valid)
    has_add = last_marked(window.starts, none, ~retractions) >= 0
    found = last[(last >= 0) & has_add & retractions[last]]
    barriers = np.zeros(len(retractions) + 1, np.bool_)
    barriers[found] = barriers[found + 1] = True
    return barriers[:-1]


def _before_retractions(window: Window, retractions: Mask, held: Mask) -> Mask:
    """Of records that take a value back, the first behind others, in a key that has an add before it.

    Retractions without an add before them become one among themselves, so they need none.
    """
    adds = np.cumsum(~retractions)
    # Adds before each row since its key began: the count so far, less the count before the key.
    firsts = window.starts[:-1]
    before: npt.NDArray[np.int64] = adds - window.by_row(adds[firsts] - ~retractions[firsts])
    barriers: Mask = held & (before > 0)
    barriers[1:] &= ~held[:-1]
    return barriers


def _behind_retractions(window: Window, retractions: Mask, held: Mask) -> Mask:
    """The first add behind records that take a value back.

    Others follow it without a barrier of their own. `since` is the add before each row, or the
    place before the key's first row. An add is marked when a held retraction stands between the
    two; so it is the first one behind it.
    """
    waiting = np.cumsum(held)
    last_add = np.maximum.accumulate(np.where(retractions, -1, np.arange(len(held))))
    previous = np.append(-1, last_add[:-1])
    first = window.by_row(window.starts[:-1])
    since = np.maximum(previous, first - 1)
    passed: npt.NDArray[np.int64] = waiting - np.where(since >= 0, waiting[since], 0)
    barriers: Mask = ~retractions & (passed > 0)
    return barriers
