"""An engine that merges nothing: every record of a key stays, with its kind and its sequence number.

`lsm.moved_rows` uses it at level 0 to move records whose merge depends on later records
(docs/decisions/0035). No table has it as its engine. With `WriteBuffer` it produces as many
files as the key with the most records has; NEVER keeps the buffer from merging what it has spilled.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable.merge.deduplicate import Deduplicate
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.window import Window
from widetable.schema.table_schema import TableSchema


class EveryRecord(Deduplicate):
    """The engine. Each layer has one record of a key, so the inherited plan has nothing to choose."""

    def boundaries(self, window: Window) -> npt.NDArray[np.bool_] | None:
        apart = np.ones(len(window.order), np.bool_)
        apart[window.starts[:-1]] = False
        return apart

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        return PartialMerge.NEVER
