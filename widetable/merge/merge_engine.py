"""The contract of a merge engine: what rows of equal key become, asked step by step.

Who asks what, and how the engines differ, says `engine`, which has the table of them.
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
    """Pure functions of a schema and of rows; engines hold no state. They are called for keys with several rows only
    as far as the result goes: a key with one row passes through a merge unchanged. What is not abstract holds where a
    record wins as a whole.
    """

    name: str
    # Whether a key that has nothing but a retraction is there.
    merges_retractions = False
    # Whether compaction always looks up what lies below, and leaves out keys that are there: a key is in one file only.
    looks_up = False
    # Whether a merged row may hold values of several records, so that its one sequence number cannot stand for all
    # of them (docs/decisions/0007).
    mixes_records = False

    def validate(self, schema: TableSchema) -> None:
        """Raises InvalidError for options that break a rule, UnsupportedError for what is not honoured."""
        check_rules(schema)

    def check_columns(self, schema: TableSchema, columns: Collection[str]) -> None:
        """Raises InvalidError when one writer may not write just these columns; it says what to add."""
        check_required(schema, columns)

    def needed_columns(self, schema: TableSchema, columns: Collection[str]) -> tuple[str, ...]:
        """What must be loaded so that these columns can be merged: they, the key, and what decides; in table order.

        A read of one column of a sequence group loads the group's sequence too, else late rows
        would win.
        """
        needed = {*columns, *schema.trimmed_primary_key, *schema.sequence_fields}
        return tuple(name for name in schema.names if name in needed)

    def ordered_columns(self, schema: TableSchema) -> frozenset[str] | None:
        """The columns whose merged value depends on which of two adds is the later one (`order_dependence`).

        None: the rows of this engine win or lose as a whole, so every column does.
        """
        return None

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same records without values that have no meaning (docs/decisions/0001).

        Rows, their order, kinds and numbers stay. Raises InvalidError for a retraction that could
        never be merged: once it is stored the table cannot be read.
        """
        return row_batch

    def barriers(self, window: Window) -> npt.NDArray[np.bool_] | None:
        """bool[m] by position in `window.order`: rows that must not be collapsed with the row before them
        (docs/decisions/0003); None when there is none. Asked of a window in which some key has several rows.
        """
        return None

    @abstractmethod
    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """One row per key, for these columns, from all that there is of it. Raises InvalidError for a retraction that
        has no meaning.
        """

    def collapse_plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        """The same of a commit's rows, which will be merged with what is older (docs/decisions/0031)."""
        return self.plan(window, columns)

    @abstractmethod
    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """Which runs compaction may merge (docs/decisions/0002). has_deletes: the files hold -U or -D."""

    @abstractmethod
    def keeps_deletes(self, schema: TableSchema) -> bool:
        """Whether a delete still means something when nothing older is left (docs/decisions/0002).

        It does when a later commit may bring a record that sorts before it.
        """

    def counts_newest_full_row(self, schema: TableSchema) -> bool:
        """Whether rows at level >= 1 are whole rows, of which only the newest of a key may be merged: what is older is
        in it (docs/decisions/0031).
        """
        return False
