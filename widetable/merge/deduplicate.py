"""The engine `deduplicate`: the last record of a key wins as a whole, nulls included.

Source: Paimon `DeduplicateMergeFunction`. A winner of kind -U or -D makes the key invisible. With `ignore-delete`,
retractions that stand in files are passed over, unless a key has nothing else. The winner keeps its own sequence
number, so merging in any grouping gives the same row. Raises InvalidError for options or columns that break a rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from widetable.kernels.partial_update import last_marked
from widetable.merge.merge_engine import MergeEngine
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import TableSchema


class Deduplicate(MergeEngine):
    """See the module text, and `MergeEngine` for the contract of each method."""

    name = "deduplicate"

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """One pick for all columns: a row wins as a whole, so a column that it lacks is null."""
        winners = window.last_rows
        ignores = window.schema.typed_options.get(opt.IGNORE_DELETE)
        if ignores and (retractions := is_retraction(window.kinds)).any():
            # Writers drop them then: these are from before the option was set, or of other clients.
            none = np.full(len(winners), -1, np.int64)
            found = last_marked(window.starts, none, ~retractions[window.order])
            winners = np.where(found >= 0, window.order[found], winners)
        return unmerged(window, columns, winners)

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """The last of the last ones is the last: the winner keeps its place in the order."""
        return PartialMerge.ALWAYS

    def keeps_deletes(self, schema: TableSchema) -> bool:
        """An older insert may arrive after a delete only where the user's sequence says what is older."""
        return bool(schema.sequence_fields) and not schema.typed_options.get(opt.IGNORE_DELETE)
