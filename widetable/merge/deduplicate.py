"""The engine `deduplicate`: the last record of a key wins as a whole, nulls included.

Source: Paimon `DeduplicateMergeFunction`. A winner of kind -U or -D makes the key invisible. With `ignore-delete`,
retractions that stand in files are passed over, unless a key has nothing else. The winner keeps its own sequence
number, so merging in any grouping gives the same row. Raises InvalidError for options or columns that break a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import options as opt
from widetable.kernels.partial_update import last_marked
from widetable.merge.option_rules import check_rules
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import MergePlan, Pick
from widetable.merge.window import Window
from widetable.merge.written_columns import check_required
from widetable.row_kind import is_retraction
from widetable.schema import TableSchema


class Deduplicate:
    """See the module text, and `MergeEngine` for the contract of each method."""

    name = "deduplicate"
    mixes_records = False
    merges_retractions = False
    looks_up = False

    def validate(self, schema: TableSchema) -> None:
        check_rules(schema)

    def check_columns(self, schema: TableSchema, columns: Collection[str]) -> None:
        check_required(schema, columns)

    def needed_columns(self, schema: TableSchema, columns: Collection[str]) -> tuple[str, ...]:
        needed = {*columns, *schema.trimmed_primary_key, *schema.sequence_fields}
        return tuple(name for name in schema.names if name in needed)

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        return row_batch

    def barriers(self, window: Window) -> npt.NDArray[np.bool_] | None:
        return None

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """One pick for all columns: a row wins as a whole, so a column that it lacks is null."""
        winners = window.last_rows
        ignores = window.schema.typed_options.get(opt.IGNORE_DELETE)
        if ignores and (retractions := is_retraction(window.kinds)).any():
            # Writers drop them then: these are from before the option was set, or of other clients.
            none = np.full(len(winners), -1, np.int64)
            found = last_marked(window.starts, none, ~retractions[window.order])
            winners = np.where(found >= 0, window.order[found], winners)
        pick = Pick(tuple(columns), winners)
        return MergePlan(window.kinds[winners], window.sequence_numbers[winners], (pick,))

    def collapse_plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        return self.plan(window, columns)

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """The last of the last ones is the last: the winner keeps its place in the order."""
        return PartialMerge.ALWAYS

    def keeps_deletes(self, schema: TableSchema) -> bool:
        """An older insert may arrive after a delete only where the user's sequence says what is older."""
        return bool(schema.sequence_fields) and not schema.typed_options.get(opt.IGNORE_DELETE)

    def counts_newest_full_row(self, schema: TableSchema) -> bool:
        return False
