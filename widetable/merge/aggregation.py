"""The engine `aggregation`: each column is merged by its own function, by default last_non_null_value.

Source: Paimon `AggregateMergeFunction`; semantics.md sections 7 and 8. A retraction applies to every column, and
the row stays, even when it is the only record of its key. With `aggregation.remove-record-on-delete` a -D removes the
row, and later records start a new one. A column of `sequence.field` has the value of the last record.
Raises InvalidError for options, columns and records that break a rule, UnsupportedError for functions that this version
does not have.

Retractions merge differently when older records are missing. `plan` has all records of a key,
`collapse_plan` those of one commit:

    sum          plan       collapse_plan
    -D 5         +I -5      -D 5            alone in its commit: kept as it is until the base is known
    -D 5 -U 2    +I -7      -U 7            one retraction, which retracts both
    +I 5 -D 5    +I 0       +I 0
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.aggregate import ADD, RETRACT, SKIP
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.partial_update import last_marked
from widetable.merge.aggregate_boundaries import aggregate_boundaries
from widetable.merge.aggregate_columns import (
    applies_retractions,
    columns_of_aggregation,
    commutes,
)
from widetable.merge.aggregate_function import IGNORE_RETRACT, AggregateColumn, Grouping
from widetable.merge.aggregate_functions import AGGREGATES, function_of
from widetable.merge.aggregate_normal_form import (
    aggregate_normal_form,
    fill,
    refuse_retractions,
)
from widetable.merge.collapse_boundaries import between_sequences, first_behind, within_keys
from widetable.merge.fold import Fold
from widetable.merge.merge_engine import MergeEngine, RowOrigin
from widetable.merge.normal_form import first_empty_delete, ineffective_delete
from widetable.merge.option_rules import RULES_OF_FUNCTIONS
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import MergePlan, SourceList
from widetable.merge.window import Window
from widetable.merge.written_columns import missing_columns
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, INSERT, is_retraction
from widetable.schema.table_schema import VALUE_KIND, TableSchema


class Aggregation(MergeEngine):
    """The engine; `MergeEngine` has the contract of each method."""

    name = "aggregation"
    rules = RULES_OF_FUNCTIONS
    origin = RowOrigin.FUNCTIONS
    merges_retractions = True
    stores_keys_once = False
    has_groups = False

    def deletes_remove(self, schema: TableSchema) -> bool:
        return _removes(schema)

    def removing_option(self, schema: TableSchema) -> str:
        return f"{opt.AGGREGATION_REMOVE_RECORD_ON_DELETE.key}=true"

    def filled_columns(self, schema: TableSchema) -> Mapping[str, AggregateColumn]:
        return columns_of_aggregation(schema)

    def effective_nulls(self, schema: TableSchema, columns: Collection[str]) -> frozenset[str]:
        """Return columns whose functions count nulls, and those of `sequence.field`: their nulls make the row the
        oldest one. Other functions skip nulls.
        """
        filled = columns_of_aggregation(schema)
        counting = {name for name, column in filled.items() if function_of(column).nulls_count}
        return frozenset(columns).intersection({*counting, *schema.sequence_fields})

    def check_columns(self, schema: TableSchema, columns: Collection[str]) -> None:
        """Raise when a column whose nulls count is missing: the batch would set it to null."""
        super().check_columns(schema, columns)
        missing = [
            name
            for name, column in columns_of_aggregation(schema).items()
            if function_of(column).nulls_count and name not in columns
        ]
        if missing:
            names = " and ".join(name for name, each in AGGREGATES.items() if each.nulls_count)
            expected = f"all columns of the functions {names}, whose nulls count"
            raise missing_columns(columns, missing, expected)

    def ordered_columns(self, schema: TableSchema) -> frozenset[str]:
        """Return the columns whose functions do not commute. A column of `sequence.field` is not one: where it ties,
        its values are equal.
        """
        columns = columns_of_aggregation(schema)
        return frozenset(name for name, column in columns.items() if not commutes(column))

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        """Clear all but the key of a -D that removes a row: otherwise later records would be added to its values."""
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

    def boundaries(self, window: Window) -> npt.NDArray[np.bool_] | None:
        """Keep apart the records behind a removal, also a retraction: it has nothing to retract from."""
        columns = columns_of_aggregation(window.schema)
        written = [columns[name] for name in window.names if name in columns]
        boundaries = aggregate_boundaries(window, written)
        if self.partial_merge(window.schema, has_deletes=False) is PartialMerge.NEVER:
            boundaries |= between_sequences(window)
        if _removes(window.schema):
            deletes = window.kinds[window.order] == DELETE
            boundaries |= first_behind(window, ~deletes, deletes)
        return within_keys(window, boundaries)

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        return _plan(window, columns, collapses=False)

    def collapse_plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        return _plan(window, columns, collapses=True)

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """Decide by the groupings of all functions (docs/decisions/0031): the strictest column counts."""
        groupings = _groupings(schema)
        if schema.sequence_fields and not groupings <= {Grouping.ANY, Grouping.ADDS, Grouping.LAST}:
            return PartialMerge.NEVER
        if Grouping.NEVER in groupings or (has_deletes and _needs_base_for_deletes(schema)):
            return PartialMerge.WITH_BASE
        return PartialMerge.ALWAYS

    def keeps_deletes(self, schema: TableSchema) -> bool:
        """Keep removals where an older record may still arrive: only a user's sequence allows that."""
        return bool(schema.sequence_fields) and _removes(schema)

    def counts_newest_full_row(self, schema: TableSchema) -> bool:
        return bool(schema.typed_options.get(opt.CHANGELOG_PRODUCER) == "lookup")


def _refuse_empty_deletes(schema: TableSchema, row_batch: pa.RecordBatch) -> None:
    """Refuse a -D that retracts nothing. With a column of `last_value` a -D always clears that column."""
    kind = schema.typed_options.get(opt.ROWKIND_FIELD)
    retracting = [
        column
        for name, column in columns_of_aggregation(schema).items()
        if applies_retractions(column) and name != kind
    ]
    if not retracting or any(function_of(column).nulls_count for column in retracting):
        return
    names = [column.name for column in retracting]
    key = first_empty_delete(schema, row_batch, names)
    if key is not None:
        expected = "the values that it retracts"
        raise ineffective_delete("merge-engine aggregation", key, expected, names)


@once_per_object
def _groupings(schema: TableSchema) -> frozenset[Grouping]:
    """Return the groupings of all columns."""
    columns = columns_of_aggregation(schema).values()
    return frozenset(function_of(column).grouping(column) for column in columns)


@once_per_object
def _needs_base_for_deletes(schema: TableSchema) -> bool:
    """Whether merging retractions of newer runs without the base loses information."""
    exact = (Grouping.ANY, Grouping.LAST)
    return _removes(schema) or any(
        (function_of(column).nulls_count and column.get(IGNORE_RETRACT))
        or (applies_retractions(column) and function_of(column).grouping(column) not in exact)
        for column in columns_of_aggregation(schema).values()
    )


def _removes(schema: TableSchema) -> bool:
    return bool(schema.typed_options.get(opt.AGGREGATION_REMOVE_RECORD_ON_DELETE))


def _plan(window: Window, columns: Sequence[str], *, collapses: bool) -> MergePlan:
    """Return the plan of a window. collapses: the window has the records of a commit, without the older ones: then a
    single record stays as it is, and retractions alone become one retraction.
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
    """The keys of a window that are merged: keys with several records, and single retractions unless `collapses`.

    fold: these keys, with the steps for columns that retractions change. A record is SKIP
    when it lies at or before the key's removal, and a retraction when deletes are ignored; in a
    commit of retractions alone each is ADD. without_retractions: the fold for other columns.
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
        # Keys that have only retractions behind the floor.
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
        """Return int8[g]: +I; -D where the last record removed the row; the last kind where retractions stay."""
        fold = self.fold
        kinds = self._window.kinds[self._window.last_rows]
        last = kinds[fold.keys]
        is_removed = fold.floor == fold.starts[1:] - 1
        # A key that has only retractions is absent when they retract nothing, or when the base is not known yet.
        ignores = self._window.schema.typed_options.get(opt.IGNORE_DELETE)
        stays_gone = is_removed | (self._retracted & bool(ignores or self._collapses))
        kinds[fold.keys] = np.where(stays_gone, np.where(is_removed, DELETE, last), INSERT)
        return kinds
