"""No merge: every record of a key stays, with its kind and its sequence number.

For what moves records whose merge depends on records to come (docs/decisions/0035):
`lsm.moved_rows` at level 0. It is no engine of a table. With `WriteBuffer` it gives as many
files as the busiest key has records; NEVER keeps the buffer from merging what it has spilled.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable.merge.deduplicate import Deduplicate
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.window import Window
from widetable.schema.table_schema import TableSchema


class EveryRecord(Deduplicate):
    """The records of a key come in layers of one each, so there is nothing to choose from."""

    def barriers(self, window: Window) -> npt.NDArray[np.bool_] | None:
        apart = np.ones(len(window.order), np.bool_)
        apart[window.starts[:-1]] = False
        return apart

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        return PartialMerge.NEVER
