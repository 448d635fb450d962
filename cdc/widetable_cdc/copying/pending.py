"""Which changes of the log are to be applied while a table is copied chunk by chunk. Pure.

    key  ─► chunk ─► its snapshot ─► sees the change's transaction: the chunk's rows have it already, skip it
                                ─► does not, or the chunk is not read yet: apply it

Positions in the log are never compared with chunks: a transaction can be in the log and not yet visible.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable_cdc.copying.chunk_plan import ChunkPlan


def not_yet_seen(
    keys: pa.Array, xids: npt.NDArray[np.uint32], plan: ChunkPlan
) -> npt.NDArray[np.bool_]:
    """Return which of n changes are to be applied. keys: the first column of the key of each, without nulls (of an
    update that changes the key, ask for the old key and for the new one). xids: the transaction of each.
    """
    pending = np.ones(len(xids), np.bool_)
    places = plan.places_of(keys)
    order = np.argsort(places, kind="stable")
    present, starts = np.unique(places[order], return_index=True)
    for place, rows in zip(present, np.split(order, starts[1:]), strict=False):
        snapshot = plan.states[place].snapshot
        if snapshot is not None:
            pending[rows] = ~snapshot.sees(xids[rows])
    return pending


def truncated(xid: int, plan: ChunkPlan) -> npt.NDArray[np.bool_]:
    """Return for each chunk, by its place, whether a truncate by the transaction `xid` empties it: not those whose
    snapshot sees it, whose rows came later.
    """
    number = np.array([xid], np.uint32)
    return np.array(
        [each.snapshot is None or not each.snapshot.sees(number)[0] for each in plan.states],
        np.bool_,
    )
