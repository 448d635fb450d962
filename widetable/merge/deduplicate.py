"""The engine `deduplicate`: the last record of a key wins as a whole, nulls included.

Source: Paimon `DeduplicateMergeFunction`. A winner of kind -U or -D makes the key invisible. With `ignore-delete`,
retractions in files are skipped, unless a key has nothing else. The winner keeps its own sequence
number, so merging in any grouping gives the same row. Raises InvalidError for options or columns that break a rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from widetable.kernels.partial_update import last_marked
from widetable.merge.merge_engine import MergeEngine, RowOrigin
from widetable.merge.option_rules import Rule, sequence_field_needs_partition_in_key
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import TableSchema


class Deduplicate(MergeEngine):
    """The engine; `MergeEngine` has the contract of each method."""

    name = "deduplicate"
    rules: tuple[Rule, ...] = (sequence_field_needs_partition_in_key,)
    origin = RowOrigin.LAST
    merges_retractions = False
    stores_keys_once = False
    has_groups = False

    def deletes_remove(self, schema: TableSchema) -> bool:
        return True

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """Pick one row for all columns: a row wins as a whole, so a column that it lacks is null."""
        winners = window.last_rows
        ignores = window.schema.typed_options.get(opt.IGNORE_DELETE)
        if ignores and (retractions := is_retraction(window.kinds)).any():
            # Writers drop retractions then: these were written before the option was set, or by other clients.
            none = np.full(len(winners), -1, np.int64)
            last = last_marked(window.starts, none, ~retractions[window.order])
            winners = np.where(last >= 0, window.order[last], winners)
        return unmerged(window, columns, winners)

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """Allow any grouping: the winner of the parts' winners is the winner of all, as it keeps its place in the
        order.
        """
        return PartialMerge.ALWAYS

    def keeps_deletes(self, schema: TableSchema) -> bool:
        """Keep deletes where an older insert may still arrive: only a user's sequence allows that."""
        return bool(schema.sequence_fields) and not schema.typed_options.get(opt.IGNORE_DELETE)
