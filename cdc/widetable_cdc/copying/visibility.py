"""When the snapshot of a chunk may be used. Pure, raises nothing.

A chunk's rows replace what is there, so they must show every transaction that was already applied to their range. One
that was applied from the log and is not in the snapshot (it waits for a standby) would be overwritten, and the log
would not bring it again. Two things are known of the applied ones: the numbers of those of this run, and a floor below
which all others lie: the xmax of a snapshot that was taken when the run began.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable_cdc.source.source_snapshot import SourceSnapshot


def counts(snapshot: SourceSnapshot, applied: npt.NDArray[np.uint32], floor_xid: int = 0) -> bool:
    """Return whether the snapshot sees all of `applied`, and whether all transactions below `floor_xid` have ended in
    it. applied: n transactions that were applied to the range in this run. floor_xid: 64 bits; the xmax of a snapshot
    from the begin of the run, or from behind the change of a publication that took the table in, the later one.
    """
    return snapshot.xmin >= floor_xid and bool(snapshot.sees(applied).all())
