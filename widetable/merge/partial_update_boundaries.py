"""Where partial-update must keep records of a commit apart (docs/decisions/0003).

* `sequence.field`: a later commit may put a record between two of different sequence.
* remove-record-on-delete: the first add behind the last -D of a key; together they would be an add that forgets the
  removal.
* remove-record-on-sequence-group: a -D that may remove stands alone; whether it does is known only with what is older.
* Retractions of what functions fill, before the first add of the commit: whether they count is known only with what is
  older, too. Not of `collect`, which takes nothing back in a commit that adds, as in Paimon (docs/decisions/0031).
* Functions that go by order (`aggregate_barriers`): each record with a sequence stands alone.

    sequence.field t           t=5 a=1   t=5 a=2 ║ t=7 a=3
    removal by the group of s  +I s=1 ║ -D s=2 ║ +I s=3
    sum in the group of s      -U s=1 a=5 ║ +U s=2 a=7   +I s=3 a=1         the second layer is +I s=3 a=8
    listagg, the same          +I s=1 a=x ║ +I s=2 a=y   +I s=· a=z         without a sequence it changes nothing
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable.kernels.arrow_buffers import valid_of
from widetable.merge.aggregate_boundaries import aggregate_barriers, goes_by_order
from widetable.merge.aggregate_function import AggregateColumn
from widetable.merge.aggregate_functions import columns_of_group, columns_of_groups, takes_back
from widetable.merge.collapse_boundaries import behind_last_delete, between_sequences, kept
from widetable.merge.partial_update_plan import removing_groups, sequences_of
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, is_retraction


def partial_update_barriers(window: Window) -> npt.NDArray[np.bool_] | None:
    """bool[m] by position in `window.order`; None when no record is kept apart."""
    barriers = between_sequences(window)
    kinds = window.kinds[window.order]
    deletes = kinds == DELETE
    retractions = is_retraction(kinds)
    if retractions.any():
        barriers |= _behind_first_retractions(window, retractions)
        barriers |= aggregate_barriers(window, _held_columns(window).values())
    barriers |= _between_ordered(window)
    if deletes.any():
        if window.schema.typed_options.get(opt.REMOVE_RECORD_ON_DELETE):
            barriers |= behind_last_delete(window)
        barriers |= _around_removals(window, deletes)
    return kept(window, barriers)


def _held_columns(window: Window) -> dict[str, AggregateColumn]:
    """Those that functions fill."""
    columns = columns_of_groups(window.schema)
    return {name: columns[name] for name in window.names if name in columns}


def _around_removals(window: Window, deletes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Each -D with the sequence of a removing group, and the row behind it. If the base refuses
    it, what stood before it in the commit must still be there; if not, what comes behind begins
    a new row.
    """
    may_remove = np.zeros(len(deletes), np.bool_)
    for group in removing_groups(window.schema):
        may_remove |= deletes & sequences_of(window, window.order, group).has_sequence
    barriers = may_remove.copy()
    barriers[1:] |= may_remove[:-1]
    return barriers


def _between_ordered(window: Window) -> npt.NDArray[np.bool_]:
    """Records of a sequence group in which functions go by order, where one before is of the group, too; and around
    retractions of it, whose sequence an add would take for its own.
    """
    barriers = np.zeros(len(window.order), np.bool_)
    retractions = is_retraction(window.kinds[window.order])
    for group in window.schema.groups_of(window.names):
        columns = columns_of_group(window.schema, group).values()
        by_order = goes_by_order(columns)
        if not by_order and all(column.function != "last_value" for column in columns):
            continue
        has_sequence = sequences_of(window, window.order, group).has_sequence
        apart = has_sequence & retractions
        barriers |= apart
        barriers[1:] |= apart[:-1]
        if by_order:
            barriers |= has_sequence & _has_one_before(window, has_sequence)
    return barriers


def _has_one_before(window: Window, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether a row of the same key before a row is marked."""
    count: npt.NDArray[np.int64] = np.cumsum(marked) - marked
    return np.asarray(count > window.by_row(count[window.starts[:-1]]))


def _behind_first_retractions(
    window: Window, retractions: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The first add of each key that has such a retraction before it.

    Such as take a value back. Behind the base's row it counts, without a base it does not, and
    once it is merged with an add nobody can tell.
    """
    barriers = np.zeros(len(retractions), np.bool_)
    taken_back = [
        name
        for name, column in _held_columns(window).items()
        if takes_back(column) and column.function != "collect"
    ]
    if not taken_back:
        return barriers
    values = (valid_of(window.take(name, window.order)) for name in taken_back)
    held = retractions & np.logical_or.reduce(list(values))
    places = np.arange(len(held))
    # The position of each key's first add; len(held) where it has none.
    firsts = np.minimum.reduceat(np.where(retractions, len(held), places), window.starts[:-1])
    before = held & (places < window.by_row(firsts))
    keys = np.logical_or.reduceat(before, window.starts[:-1]) & (firsts < len(held))
    barriers[firsts[keys]] = True
    return barriers
