"""The engine `aggregation`: each column by a function of its own; what nothing is said of, by last_non_null_value.

Source: Paimon `AggregateMergeFunction`; semantics.md sections 7 and 8. A retraction takes back from every column, and
the row stays, also where it is the only record of its key. With `aggregation.remove-record-on-delete` a -D removes the
row, and what follows begins anew. A column of `sequence.field` has the value of the last record.
Raises InvalidError for options, columns and records that break a rule, UnsupportedError for functions that this version
does not have.

What is known makes a difference to retractions. `plan` has all records of a key,
`collapse_plan` those of a commit:

    sum          plan       collapse_plan
    -D 5         +I -5      -D 5            alone in its commit: waits for the rest as it is
    -D 5 -U 2    +I -7      -U 7            one retraction, which takes both back
    +I 5 -D 5    +I 0       +I 0
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.aggregate import ADD, RETRACT, SKIP
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.partial_update import last_marked
from widetable.merge.aggregate_boundaries import aggregate_barriers
from widetable.merge.aggregate_function import IGNORE_RETRACT, Grouping
from widetable.merge.aggregate_functions import (
    AGGREGATES,
    columns_of_aggregation,
    commutes,
    takes_back,
)
from widetable.merge.aggregate_normal_form import (
    aggregate_normal_form,
    fill,
    refuse_retractions,
)
from widetable.merge.aggregate_rules import functions_are_honoured
from widetable.merge.collapse_boundaries import between_sequences, first_behind, kept
from widetable.merge.fold import Fold
from widetable.merge.merge_engine import MergeEngine
from widetable.merge.normal_form import first_empty_delete, without_effect
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import MergePlan, SourceList
from widetable.merge.window import Window
from widetable.merge.written_columns import missing_columns
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, INSERT, is_retraction
from widetable.schema.table_schema import VALUE_KIND, TableSchema

# Functions for which null is a value like any other.
_NULL_COUNTS = ("last_value", "first_value")


class Aggregation(MergeEngine):
    """See the module text, and `MergeEngine` for the contract of each method."""

    name = "aggregation"
    mixes_records = True
    merges_retractions = True

    def validate(self, schema: TableSchema) -> None:
        super().validate(schema)
        functions_are_honoured(schema)

    def check_columns(self, schema: TableSchema, columns: Collection[str]) -> None:
        """A batch without a column whose nulls count would set it to null."""
        super().check_columns(schema, columns)
        missing = [
            name
            for name, column in columns_of_aggregation(schema).items()
            if column.function in _NULL_COUNTS and name not in columns
        ]
        if missing:
            expected = "all columns of the functions last_value and first_value, whose nulls count"
            raise missing_columns(columns, missing, expected)

    def ordered_columns(self, schema: TableSchema) -> frozenset[str]:
        """Those of functions that do not commute. A column of `sequence.field` has equal values where it is equal."""
        columns = columns_of_aggregation(schema)
        return frozenset(name for name, column in columns.items() if not commutes(column))

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        """A -D that removes keeps its key alone: else what follows would be added to its values."""
        columns = columns_of_aggregation(schema)
        kinds = fixed_values(row_batch.column(VALUE_KIND), np.int8)
        removals = kinds == DELETE if _removes(schema) else np.zeros(len(kinds), np.bool_)
        retractions = is_retraction(kinds) & ~removals
        if retractions.any():
            refuse_retractions(row_batch, retractions, columns.values())
            if not _removes(schema):
                _refuse_empty_deletes(schema, row_batch)
        names = [name for name in row_batch.schema.names if name in schema.by_name]
        cleared = dict.fromkeys(names, removals) if removals.any() else {}
        written = [columns[name] for name in names if name in columns]
        return aggregate_normal_form(schema, row_batch, written, cleared)

    def barriers(self, window: Window) -> npt.NDArray[np.bool_] | None:
        """What follows a removal stands apart, a retraction too: it takes back from nothing."""
        columns = columns_of_aggregation(window.schema)
        held = [columns[name] for name in window.names if name in columns]
        barriers = aggregate_barriers(window, held)
        if self.partial_merge(window.schema, has_deletes=False) is PartialMerge.NEVER:
            barriers |= between_sequences(window)
        if _removes(window.schema):
            deletes = window.kinds[window.order] == DELETE
            barriers |= first_behind(window, ~deletes, deletes)
        return kept(window, barriers)

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        return _plan(window, columns, collapses=False)

    def collapse_plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        return _plan(window, columns, collapses=True)

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """By the groupings of all functions (docs/decisions/0031): the strictest column decides."""
        groupings = _groupings(schema)
        if schema.sequence_fields and not groupings <= {Grouping.ANY, Grouping.ADDS, Grouping.LAST}:
            return PartialMerge.NEVER
        if Grouping.NEVER in groupings or (has_deletes and _minds_deletes(schema)):
            return PartialMerge.WITH_BASE
        return PartialMerge.ALWAYS

    def keeps_deletes(self, schema: TableSchema) -> bool:
        """An older record may arrive after a removal only where the user's sequence says what is older."""
        return bool(schema.sequence_fields) and _removes(schema)

    def counts_newest_full_row(self, schema: TableSchema) -> bool:
        return bool(schema.typed_options.get(opt.CHANGELOG_PRODUCER) == "lookup")


def _refuse_empty_deletes(schema: TableSchema, row_batch: pa.RecordBatch) -> None:
    """A -D that takes nothing back. One of a column of `last_value` clears it, whatever it says."""
    kind = schema.typed_options.get(opt.ROWKIND_FIELD)
    taken_back = [
        column
        for name, column in columns_of_aggregation(schema).items()
        if takes_back(column) and name != kind
    ]
    if not taken_back or any(column.function in _NULL_COUNTS for column in taken_back):
        return
    names = [column.name for column in taken_back]
    key = first_empty_delete(schema, row_batch, names)
    if key is not None:
        expected = "the values that it takes back"
        raise without_effect("merge-engine aggregation", key, expected, names)


@once_per_object
def _groupings(schema: TableSchema) -> frozenset[Grouping]:
    """Of all columns."""
    columns = columns_of_aggregation(schema).values()
    return frozenset(AGGREGATES[column.function].grouping(column) for column in columns)


@once_per_object
def _minds_deletes(schema: TableSchema) -> bool:
    """Whether retractions among newer runs lose something when they are merged without the base."""
    exact = (Grouping.ANY, Grouping.LAST)
    return _removes(schema) or any(
        (column.function in _NULL_COUNTS and column.get(IGNORE_RETRACT))
        or (takes_back(column) and AGGREGATES[column.function].grouping(column) not in exact)
        for column in columns_of_aggregation(schema).values()
    )


def _removes(schema: TableSchema) -> bool:
    return bool(schema.typed_options.get(opt.AGGREGATION_REMOVE_RECORD_ON_DELETE))


def _plan(window: Window, columns: Sequence[str], *, collapses: bool) -> MergePlan:
    """collapses: the records of a commit, before what is older is known: then one record alone stays what it is, and
    retractions alone become one.
    """
    folded = _MergedKeys(window, collapses=collapses)
    filled = columns_of_aggregation(window.schema)
    sources = SourceList()
    for name in columns:
        column = filled.get(name)
        if column is None or not window.holders(name):
            sources.add(name, window.last_rows)
        else:
            fill(sources, column, folded.fold, folded.without_retractions)
    numbers = window.sequence_numbers[window.first_rows]  # docs/decisions/0007
    return MergePlan(folded.kinds(), numbers, sources.sources())


class _MergedKeys:
    """The keys of a window that are merged: those with several records, and lone retractions when all is known.

    fold: of these keys, with the steps of columns that take retractions back. A record is SKIP
    when it lies at or before the key's removal, and a retraction when deletes are ignored; in a
    commit of retractions alone each is ADD. without_retractions: of other columns.
    """

    def __init__(self, window: Window, *, collapses: bool) -> None:
        chosen = np.diff(window.starts) > 1
        if not collapses:
            chosen |= is_retraction(window.kinds[window.first_rows])
        self._window = window
        merged = window.some_keys(chosen)
        keys, rows, starts = merged.keys, merged.rows, merged.starts
        kinds = window.kinds[rows]
        floor = np.full(len(keys), -1, np.int64)
        if _removes(window.schema):
            floor = last_marked(starts, floor, kinds == DELETE)
        retractions = is_retraction(kinds)
        # Keys with nothing but retractions behind the floor.
        self._retracted = last_marked(starts, floor, ~retractions) < 0
        steps = np.where(retractions, RETRACT, ADD).astype(np.int8)
        if window.schema.typed_options.get(opt.IGNORE_DELETE):
            steps[retractions] = SKIP
        elif collapses:
            steps[np.repeat(self._retracted, np.diff(starts))] = ADD
        steps[np.arange(len(rows)) <= np.repeat(floor, np.diff(starts))] = SKIP
        self._collapses = collapses
        self.fold = Fold(window, keys, rows, starts, floor, steps, composes=collapses)
        without = np.where(retractions, SKIP, ADD).astype(np.int8)
        self.without_retractions = replace(self.fold, steps=without)

    def kinds(self) -> npt.NDArray[np.int8]:
        """int8[g]: +I; -D where the last record removed; the last record's where retractions stay."""
        fold = self.fold
        kinds = self._window.kinds[self._window.last_rows]
        last = kinds[fold.keys]
        is_removed = fold.floor == fold.starts[1:] - 1
        # A key of retractions alone is not there when they take nothing back, or still wait for the rest.
        ignores = self._window.schema.typed_options.get(opt.IGNORE_DELETE)
        stays_gone = is_removed | (self._retracted & bool(ignores or self._collapses))
        kinds[fold.keys] = np.where(stays_gone, np.where(is_removed, DELETE, last), INSERT)
        return kinds
