"""The engine `first-row`: the first record of a key wins as a whole, nulls included; later records change nothing.

Source: Paimon `FirstRowMergeFunction`; semantics.md section 5. Paimon's clients read levels >= 1 without merging them,
so compaction leaves out rows whose key lies further below (`stores_keys_once`). A record of an overtaken writer that is
older by its number but arrived later has no effect once newer records have been compacted. Raises InvalidError for
options that break a rule, and for retractions, which have no meaning here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.aggregate import first_values
from widetable.merge.deduplicate import Deduplicate
from widetable.merge.merge_engine import RowOrigin
from widetable.merge.normal_form import first_retraction
from widetable.merge.option_rules import changelog_producer_of_first_row, no_sequence_field
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import TEXTS, is_retraction
from widetable.schema.table_schema import TableSchema


class FirstRow(Deduplicate):
    """The engine; `MergeEngine` has the contract of each method. A row wins as a whole, as in `deduplicate`: merging
    the winners of parts gives the winner of all, and `sequence.field` is refused.
    """

    name = "first-row"
    rules = (no_sequence_field, changelog_producer_of_first_row)
    origin = RowOrigin.FIRST
    stores_keys_once = True

    def deletes_remove(self, schema: TableSchema) -> bool:
        return False

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        wrong = first_retraction(schema, row_batch)
        if wrong is not None:
            raise _meaningless(*wrong)
        return row_batch

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """Choose the first add of each key. A key that has only retractions, which only `ignore-delete` lets through,
        keeps its last row.
        """
        starts, rows = window.starts, window.order
        adds = ~is_retraction(window.kinds[rows])
        if not adds.all() and not window.schema.typed_options.get(opt.IGNORE_DELETE):
            row = int(rows[(~adds).argmax()])
            raise _meaningless(int(window.kinds[row]), window.printed_key(row))
        # Choose the first add, whatever its values are: every value counts as valid, and no key has a floor.
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
