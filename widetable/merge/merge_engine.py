"""The contract of a merge engine, which merges records of equal key.

`engine` has the table of engines, says where each method is used, and how the engines differ. Traits and methods say
all that other modules need to know of an engine; no other module compares its name (docs/decisions/0067).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.merge.aggregate_function import AggregateColumn
from widetable.merge.option_rules import Rule
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import MergePlan
from widetable.merge.window import Window
from widetable.merge.written_columns import check_required
from widetable.schema.table_schema import TableSchema


class RowOrigin(Enum):
    """Which records of a key its row is from. LAST, FIRST: the last or first one, as a whole, nulls included. COLUMNS:
    each column is from the last record in which it is not null, or as its sequence group says. FUNCTIONS: a function
    fills each column.
    """

    LAST = "last"
    FIRST = "first"
    COLUMNS = "columns"
    FUNCTIONS = "functions"


class MergeEngine(ABC):
    """Pure functions of a schema and of rows; engines hold no state. A key with one row passes through a merge
    unchanged, so engines need to be right for keys with several rows only. The methods that are not abstract fit
    engines in which a record wins as a whole. The traits have no default: an engine must set each of them.
    """

    # The value of the option `merge-engine`.
    name: str
    # What a table must obey, in the order in which rules may rely on each other.
    rules: tuple[Rule, ...]
    # Which records of a key its row is from.
    origin: RowOrigin
    # Whether a key that has only retractions becomes a row.
    merges_retractions: bool
    # Whether a key is in one file only: compaction looks keys up in lower levels, and leaves out those that exist
    # there.
    stores_keys_once: bool
    # Whether sequence groups order the values of columns.
    has_groups: bool

    def __init_subclass__(cls) -> None:
        missing = [name for name in MergeEngine.__annotations__ if not hasattr(cls, name)]
        if missing:
            raise TypeError(f"the merge engine {cls.__name__} does not set {', '.join(missing)}")

    @property
    def mixes_records(self) -> bool:
        """Whether a row may hold values of several records, so that its one sequence number does not describe all of
        them (docs/decisions/0007).
        """
        return self.origin in (RowOrigin.COLUMNS, RowOrigin.FUNCTIONS)

    def validate(self, schema: TableSchema) -> None:
        """Raise InvalidError for options that break a rule, UnsupportedError for options that are not supported."""
        for rule in self.rules:
            rule(schema)

    @abstractmethod
    def deletes_remove(self, schema: TableSchema) -> bool:
        """Whether a -D removes the row of its key, as far as `ignore-delete` is not set."""

    def removing_option(self, schema: TableSchema) -> str | None:
        """Return the option, as `key=value`, with which a -D would remove the row; None where no option does that."""
        return None

    def filled_columns(self, schema: TableSchema) -> Mapping[str, AggregateColumn]:
        """Return the columns that functions fill."""
        return {}

    def effective_nulls(self, schema: TableSchema, columns: Collection[str]) -> frozenset[str]:
        """Return those of a batch's columns whose nulls are visible after a merge. columns: those that have nothing
        but nulls in the batch.
        """
        return frozenset(columns)

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
