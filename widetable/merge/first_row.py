"""The engine `first-row`: the first record of a key wins as a whole, nulls included; others change nothing.

Source: Paimon `FirstRowMergeFunction`; semantics.md section 5. Paimon's clients read levels >= 1 without merging them,
so compaction leaves out what has its key further below (`looks_up`). What is older by its number but came later, of a
writer that was overtaken, comes too late once others have been compacted. Raises InvalidError for options that break a
rule, and for retractions, which mean nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.aggregate import first_values
from widetable.merge.deduplicate import Deduplicate
from widetable.merge.normal_form import first_retraction
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import TEXTS, is_retraction
from widetable.schema.table_schema import TableSchema


class FirstRow(Deduplicate):
    """See the module text, and `MergeEngine` for the contract of each method. A row wins as a whole, as in
    `deduplicate`: the first of the first ones is the first, and `sequence.field` is refused.
    """

    name = "first-row"
    looks_up = True

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        wrong = first_retraction(schema, row_batch)
        if wrong is not None:
            raise _meaningless(*wrong)
        return row_batch

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """A key of retractions alone, which only `ignore-delete` lets through, stays one: its last row."""
        starts, rows = window.starts, window.order
        adds = ~is_retraction(window.kinds[rows])
        if not adds.all() and not window.schema.typed_options.get(opt.IGNORE_DELETE):
            row = int(rows[(~adds).argmax()])
            raise _meaningless(int(window.kinds[row]), window.printed_key(row))
        # The first add, whatever it holds: every value counts as valid, and no key has a floor.
        none = np.full(len(starts) - 1, -1, np.int64)
        first = first_values(starts, none, adds.astype(np.int8), adds, nulls_count=True)
        winners = np.where(first >= 0, rows[first], window.last_rows)
        return unmerged(window, columns, winners)


def _meaningless(kind: int, key: str) -> InvalidError:
    return InvalidError(
        "merge-engine first-row",
        found=f"a {TEXTS[kind]} record of the key {key}",
        expected="+I and +U only",
        action=f"Set {opt.IGNORE_DELETE.key!r}, or filter the records.",
    )
