"""Where partial-update must keep records of a commit apart (docs/decisions/0003).

* `sequence.field`: a later commit may put a record between two of different sequence.
* remove-record-on-delete: the first add behind the last -D of a key is kept apart; collapsed, they would be an add that
  loses the removal.
* remove-record-on-sequence-group: a -D that may remove is kept apart; only the older records show whether it does.
* Retractions of columns that functions fill, before the first add of the commit: only the older records show whether
  they count. `collect` is an exception: it retracts nothing in a commit that adds, as in Paimon (docs/decisions/0031).
* Functions that depend on order (`aggregate_boundaries`): each record with a sequence is kept apart.

    sequence.field t           t=5 a=1   t=5 a=2 ║ t=7 a=3
    removal by the group of s  +I s=1 ║ -D s=2 ║ +I s=3
    sum in the group of s      -U s=1 a=5 ║ +U s=2 a=7   +I s=3 a=1         the second layer is +I s=3 a=8
    listagg in the group of s  +I s=1 a=x ║ +I s=2 a=y   +I s=· a=z         without a sequence it changes nothing
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable.kernels.arrow_buffers import valid_of
from widetable.merge.aggregate_boundaries import aggregate_boundaries, has_ordered_function
from widetable.merge.aggregate_columns import (
    applies_retractions,
    columns_of_group,
    columns_of_groups,
)
from widetable.merge.aggregate_function import AggregateColumn, Retraction
from widetable.merge.aggregate_functions import function_of
from widetable.merge.collapse_boundaries import behind_last_delete, between_sequences, within_keys
from widetable.merge.partial_update_plan import removing_groups, sequences_of
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, is_retraction


def partial_update_boundaries(window: Window) -> npt.NDArray[np.bool_] | None:
    """Return bool[m] by position in `window.order`; None when no record is kept apart."""
    boundaries = between_sequences(window)
    kinds = window.kinds[window.order]
    deletes = kinds == DELETE
    retractions = is_retraction(kinds)
    if retractions.any():
        boundaries |= _behind_first_retractions(window, retractions)
        boundaries |= aggregate_boundaries(window, _filled_columns(window).values())
    boundaries |= _between_ordered(window)
    if deletes.any():
        if window.schema.typed_options.get(opt.REMOVE_RECORD_ON_DELETE):
            boundaries |= behind_last_delete(window)
        boundaries |= _around_removals(window, deletes)
    return within_keys(window, boundaries)


def _filled_columns(window: Window) -> dict[str, AggregateColumn]:
    """Return the window's columns that functions fill, by name."""
    columns = columns_of_groups(window.schema)
    return {name: columns[name] for name in window.names if name in columns}


def _around_removals(window: Window, deletes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mark each -D with the sequence of a removing group, and the row behind it. If the base refuses
    the -D, the records before it in the commit must still count; if the base accepts it, the
    records behind it start a new row.
    """
    may_remove = np.zeros(len(deletes), np.bool_)
    for group in removing_groups(window.schema):
        may_remove |= deletes & sequences_of(window, window.order, group).has_sequence
    boundaries = may_remove.copy()
    boundaries[1:] |= may_remove[:-1]
    return boundaries


def _between_ordered(window: Window) -> npt.NDArray[np.bool_]:
    """Mark the second and later records of a sequence group in which functions depend on order, and the rows around
    retractions of the group, because a collapsed add would get the retraction's sequence.
    """
    boundaries = np.zeros(len(window.order), np.bool_)
    retractions = is_retraction(window.kinds[window.order])
    for group in window.schema.groups_of(window.names):
        columns = columns_of_group(window.schema, group).values()
        by_order = has_ordered_function(columns)
        if not by_order and not any(function_of(column).nulls_count for column in columns):
            continue
        has_sequence = sequences_of(window, window.order, group).has_sequence
        apart = has_sequence & retractions
        boundaries |= apart
        boundaries[1:] |= apart[:-1]
        if by_order:
            boundaries |= has_sequence & _has_one_before(window, has_sequence)
    return boundaries


def _has_one_before(window: Window, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mark rows that have a marked row of the same key before them."""
    count: npt.NDArray[np.int64] = np.cumsum(marked) - marked
    return np.asarray(count > window.by_row(count[window.starts[:-1]]))


def _behind_first_retractions(
    window: Window, retractions: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Mark the first add of each key that has a retraction of a value before it.

    Behind a row of the base such a retraction counts, without a base it does not, and once it has
    collapsed with an add the two cases look alike.
    """
    boundaries = np.zeros(len(retractions), np.bool_)
    retracting = [
        name
        for name, column in _filled_columns(window).items()
        if applies_retractions(column)
        and function_of(column).retraction is not Retraction.BEFORE_ADDS
    ]
    if not retracting:
        return boundaries
    values = (valid_of(window.take(name, window.order)) for name in retracting)
    retracted = retractions & np.logical_or.reduce(list(values))
    places = np.arange(len(retracted))
    # The position of each key's first add; len(held) where it has none.
    firsts = np.minimum.reduceat(np.where(retractions, len(retracted), places), window.starts[:-1])
    before = retracted & (places < window.by_row(firsts))
    keys = np.logical_or.reduceat(before, window.starts[:-1]) & (firsts < len(retracted))
    boundaries[firsts[keys]] = True
    return boundaries
