"""Where partial-update must keep records of a commit apart (docs/decisions/0003).

* `sequence.field`: a later commit may put a record between two of different sequence.
* remove-record-on-delete: the first add behind the last -D of a key; together they would be an add that forgets the
  removal.
* remove-record-on-sequence-group: a -D that may remove stands alone; whether it does is known only with what is older.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable import options as opt
from widetable.kernels.partial_update import last_marked
from widetable.merge.key_order import KeyOrder
from widetable.merge.partial_update_plan import removing_groups, sequences_of
from widetable.merge.window import Window
from widetable.row_kind import DELETE, is_retraction


def partial_update_barriers(window: Window) -> npt.NDArray[np.bool_] | None:
    """bool[m] by position in `window.order`; None when no record is kept apart."""
    if window.has_single_rows_only:
        return None
    barriers = _between_sequences(window)
    kinds = window.kinds[window.order]
    deletes = kinds == DELETE
    if deletes.any():
        if window.schema.typed_options.get(opt.REMOVE_RECORD_ON_DELETE):
            barriers |= _behind_last_delete(window, deletes, ~is_retraction(kinds))
        barriers |= _around_removals(window, deletes)
    barriers[window.starts[:-1]] = False
    return barriers if barriers.any() else None


def _between_sequences(window: Window) -> npt.NDArray[np.bool_]:
    barriers = np.zeros(len(window.order), np.bool_)
    lanes = KeyOrder(window.schema).sequence_lanes(window.pieces)
    if lanes is not None:
        lanes = lanes[window.order]
        barriers[1:] = (lanes[1:] != lanes[:-1]).any(axis=1)
    return barriers


def _behind_last_delete(
    window: Window, deletes: npt.NDArray[np.bool_], adds: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    keys = len(window.starts) - 1
    sizes = np.diff(window.starts)
    removal = np.repeat(last_marked(window.starts, np.full(keys, -1, np.int64), deletes), sizes)
    behind = adds & (removal >= 0) & (np.arange(len(adds)) > removal)
    positions = np.flatnonzero(behind)
    _, firsts = np.unique(np.repeat(np.arange(keys), sizes)[positions], return_index=True)
    barriers = np.zeros(len(adds), np.bool_)
    barriers[positions[firsts]] = True
    return barriers


def _around_removals(window: Window, deletes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    may_remove = np.zeros(len(deletes), np.bool_)
    for group in removing_groups(window.schema):
        may_remove |= deletes & sequences_of(window, group, window.order).has_sequence
    barriers = may_remove.copy()
    barriers[1:] |= may_remove[:-1]
    return barriers
