"""The contract of a merge engine, which merges records of equal key.

`engine` has the table of engines, says where each method is used, and how the engines differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.merge.option_rules import check_rules
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import MergePlan
from widetable.merge.window import Window
from widetable.merge.written_columns import check_required
from widetable.schema.table_schema import TableSchema


class MergeEngine(ABC):
    """Pure functions of a schema and of rows; engines hold no state. A key with one row passes through a merge
    unchanged, so engines need to be right for keys with several rows only. The methods that are not abstract fit
    engines in which a record wins as a whole.
    """

    name: str
    # Whether a key that has only retractions becomes a row.
    merges_retractions = False
    # Whether a key is in one file only: compaction looks keys up in lower levels, and leaves out those that exist
    # there.
    stores_keys_once = False
    # Whether a merged row may hold values of several records, so that its one sequence number does not describe all
    # of them (docs/decisions/0007).
    mixes_records = False

    def validate(self, schema: TableSchema) -> None:
        """Raise InvalidError for options that break a rule, UnsupportedError for options that are not supported."""
        check_rules(schema)

    def check_columns(self, schema: TableSchema, columns: Collection[str]) -> None:
        """Raise InvalidError when a writer may not write just these columns; the error says which to add."""
        check_required(schema, columns)

    def needed_columns(self, schema: TableSchema, columns: Collection[str]) -> tuple[str, ...]:
        """Return the columns to load so that these can be merged: they, the key and columns that decide; in table
        order.

        A read of one column of a sequence group loads the group's sequence too; otherwise late rows
        would win.
        """
        needed = {*columns, *schema.trimmed_primary_key, *schema.sequence_fields}
        return tuple(name for name in schema.names if name in needed)

    def ordered_columns(self, schema: TableSchema) -> frozenset[str] | None:
        """Return the columns whose merged value depends on which of two adds is the later one (`order_dependence`).

        None means every column: the rows of this engine win or lose as a whole.
        """
        return None

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records without values that have no meaning (docs/decisions/0001).

        Rows, their order, kinds and numbers stay. Raises InvalidError for a retraction that could
        never be merged: once it is stored the table cannot be read.
        """
        return row_batch

    def boundaries(self, window: Window) -> npt.NDArray[np.bool_] | None:
        """Return bool[m] by position in `window.order`: rows that must not be collapsed with the row before them
        (docs/decisions/0003); None when there is none. Some key of the window has several rows.
        """
        return None

    @abstractmethod
    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """Return the plan of one row per key, for these columns, from all records of the key. Raises InvalidError for a
        retraction that has no meaning.
        """

    def collapse_plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """Return the plan of a commit's rows, which will be merged with older records later (docs/decisions/0031)."""
        return self.plan(window, columns)

    @abstractmethod
    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """Return which runs compaction may merge (docs/decisions/0002). has_deletes: the files hold -U or -D."""

    @abstractmethod
    def keeps_deletes(self, schema: TableSchema) -> bool:
        """Whether a delete still has a meaning when no older record is left (docs/decisions/0002).

        It does when a later commit may bring a record that sorts before it.
        """

    def counts_newest_full_row(self, schema: TableSchema) -> bool:
        """Whether rows at level >= 1 are whole rows, of which only the newest of a key may be merged, because it
        contains the older ones (docs/decisions/0031).
        """
        return False
