"""The engine `partial-update`: writers fill the columns of a row; sequence groups decide which records are late.

Source: Paimon `PartialUpdateMergeFunction`. A column outside groups takes its last non-null value in merge order. A
sequence group accepts an add whose sequence is >= the stored one (null is smallest; an add is skipped when all are
null) with all its values; an accepted retraction clears its protected columns and stores its sequence. A removal
(docs/decisions/0002) clears the row except its own sequences; the key stays invisible until the next add. A key with
retractions only is invisible. NOT NULL columns, which cannot be cleared, keep the value of the record that was accepted
last, or of the last record if none was.
Raises InvalidError for options or columns that break a rule, and for a retraction in a table that gives it no meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import fixed_values
from widetable.merge.aggregate_columns import columns_of_groups, commutes
from widetable.merge.aggregate_function import AggregateColumn, Grouping
from widetable.merge.aggregate_functions import function_of
from widetable.merge.aggregate_normal_form import aggregate_normal_form, refuse_retractions
from widetable.merge.merge_engine import MergeEngine, RowOrigin
from widetable.merge.normal_form import (
    cleared_of_partial_update,
    first_empty_delete,
    first_retraction,
    ineffective_delete,
)
from widetable.merge.option_rules import RULES_OF_GROUPS
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.partial_update_boundaries import partial_update_boundaries
from widetable.merge.partial_update_plan import (
    meaningless_retraction,
    partial_update_plan,
    retractions_have_a_meaning,
)
from widetable.merge.plan import MergePlan
from widetable.merge.window import Window
from widetable.merge.written_columns import missing_columns
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, is_retraction
from widetable.schema.table_schema import VALUE_KIND, TableSchema


class PartialUpdate(MergeEngine):
    """The engine; `MergeEngine` has the contract of each method."""

    name = "partial-update"
    rules = RULES_OF_GROUPS
    origin = RowOrigin.COLUMNS
    merges_retractions = False
    stores_keys_once = False
    has_groups = True

    def deletes_remove(self, schema: TableSchema) -> bool:
        return _removing(schema)

    def removing_option(self, schema: TableSchema) -> str:
        if not schema.sequence_groups:
            return f"{opt.REMOVE_RECORD_ON_DELETE.key}=true"
        sequence = schema.sequence_groups[0].sequence[0]
        return f"{opt.REMOVE_RECORD_ON_SEQUENCE_GROUP.key}={sequence}"

    def filled_columns(self, schema: TableSchema) -> Mapping[str, AggregateColumn]:
        return columns_of_groups(schema)

    def effective_nulls(self, schema: TableSchema, columns: Collection[str]) -> frozenset[str]:
        """Return columns of groups whose sequence has a value, unless a function skips their nulls. Other nulls leave
        the value as it is.
        """
        written = (one for one in schema.sequence_groups if not set(one.sequence) <= set(columns))
        filled = columns_of_groups(schema)
        skipping = {n for n, column in filled.items() if not function_of(column).nulls_count}
        effective = {name for group in written for name in group.columns} - skipping
        return frozenset(effective.intersection(columns))

    def check_columns(self, schema: TableSchema, columns: Collection[str]) -> None:
        """Raise when columns of a group are missing. Without the group's sequence a batch would change nothing. Without
        some of the group's values it would clear them, because missing columns are null: an option must allow that.
        """
        super().check_columns(schema, columns)
        with_nulls = schema.typed_options.get(opt.ABSENT_GROUP_COLUMNS) == "null"
        for group in schema.sequence_groups:
            wanted = group.sequence if with_nulls else group.columns
            missing = [name for name in wanted if name not in columns]
            if missing and not set(group.columns).isdisjoint(columns):
                which = "sequence columns" if with_nulls else "columns"
                expected = (
                    f"all {which} of the sequence group ({', '.join(wanted)}), or none of the group"
                )
                set_null = f", or set {opt.ABSENT_GROUP_COLUMNS.key!r} to null"
                raise missing_columns(columns, missing, expected, "" if with_nulls else set_null)

    def needed_columns(self, schema: TableSchema, columns: Collection[str]) -> tuple[str, ...]:
        """Add the sequences of groups, always those by which a -D removes rows: they decide for every column."""
        needed = {*columns, *schema.trimmed_primary_key, *schema.sequence_fields}
        removing: tuple[str, ...] = schema.typed_options.get(opt.REMOVE_RECORD_ON_SEQUENCE_GROUP)
        for group in schema.sequence_groups:
            if needed.intersection(group.columns) or set(removing).intersection(group.sequence):
                needed.update(group.sequence)
        return super().needed_columns(schema, needed)

    def ordered_columns(self, schema: TableSchema) -> frozenset[str]:
        """Return all columns but `sequence.field`, whose values are equal where they tie, and groups whose columns
        commute.

        In such a group the largest sequence is stored in any order of records, and the values are equal, too.
        """
        filled = columns_of_groups(schema)
        unordered = {*schema.primary_keys, *schema.sequence_fields}
        for group in schema.sequence_groups:
            plain = [name for name in group.protected if name not in group.sequence]
            commuting = {name for name in plain if name in filled and commutes(filled[name])}
            unordered |= {*group.columns} if commuting.issuperset(plain) else commuting
        return frozenset(schema.names).difference(unordered)

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse a retraction that a function does not support only where its group has a sequence: otherwise it is
        skipped. Refuse a -D without any sequence, as all groups skip it.
        """
        wrong = None if retractions_have_a_meaning(schema) else first_retraction(schema, row_batch)
        if wrong is not None:
            raise meaningless_retraction(*wrong)
        _refuse_empty_deletes(schema, row_batch)
        cleared = cleared_of_partial_update(schema, row_batch)
        filled = columns_of_groups(schema)
        if filled:
            kinds = fixed_values(row_batch.column(VALUE_KIND), np.int8)
            retractions = is_retraction(kinds)
            if _removing(schema):  # only the older records show which -D removes
                retractions &= kinds != DELETE
            written = [filled[name] for name in cleared if name in filled]
            for column in written:
                refuse_retractions(row_batch, retractions & ~cleared[column.name], [column])
            return aggregate_normal_form(schema, row_batch, written, cleared)
        return aggregate_normal_form(schema, row_batch, (), cleared)

    def boundaries(self, window: Window) -> npt.NDArray[np.bool_] | None:
        return partial_update_boundaries(window)

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        return partial_update_plan(window, columns)

    def collapse_plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        return partial_update_plan(window, columns, collapses=True)

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        """Return NEVER with `sequence.field`: a row merged from several values of it would have one place in the order.

        With functions in groups a retraction counts only behind the first add of its key, which
        may be in the base; and only the base shows whether an add among newer runs is late. Both
        need the base.
        """
        if schema.sequence_fields:
            return PartialMerge.NEVER
        filled = columns_of_groups(schema).values()
        if filled and (has_deletes or not all(map(_merges_freely, filled))):
            return PartialMerge.WITH_BASE
        return PartialMerge.WITH_BASE if has_deletes and _removing(schema) else PartialMerge.ALWAYS

    def keeps_deletes(self, schema: TableSchema) -> bool:
        """Keep deletes with sequences: they make older records that arrive later have no effect."""
        is_ordered = bool(schema.sequence_groups or schema.sequence_fields)
        return is_ordered and not schema.typed_options.get(opt.IGNORE_DELETE)

    def counts_newest_full_row(self, schema: TableSchema) -> bool:
        """Whether functions fill columns: only they would count an older full row twice, replaced columns would not."""
        producer = schema.typed_options.get(opt.CHANGELOG_PRODUCER)
        return bool(producer == "lookup" and columns_of_groups(schema))


def _refuse_empty_deletes(schema: TableSchema, row_batch: pa.RecordBatch) -> None:
    sequences = [name for group in schema.sequence_groups for name in group.sequence]
    key = first_empty_delete(schema, row_batch, sequences) if sequences else None
    if key is not None:
        expected = "the sequence of a group, which a -D clears where it is not older"
        raise ineffective_delete("merge-engine partial-update", key, expected, sequences)


def _merges_freely(column: AggregateColumn) -> bool:
    """Whether adds may be merged in any grouping, late ones among them."""
    free = (Grouping.ANY, Grouping.ADDS, Grouping.LAST)
    return function_of(column).grouping(column) in free


def _removing(schema: TableSchema) -> bool:
    """Whether a -D may remove a row."""
    options = schema.typed_options
    on_delete = options.get(opt.REMOVE_RECORD_ON_DELETE)
    return bool(on_delete or options.get(opt.REMOVE_RECORD_ON_SEQUENCE_GROUP))
