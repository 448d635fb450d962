"""Which function fills which column of a table.

Source: Paimon `AggregateMergeFunction.Factory`; semantics.md sections 6.4 and 7. Pure; raises InvalidError for wrong
option values.

Precedence, as in Paimon: keys and columns that order records have no function, whatever
options say; then the column's own option, then `fields.default-aggregate-function`. In
`aggregation` all other columns use last_non_null_value; in `partial-update` they are
replaced as `partial_update` says.
"""

from __future__ import annotations

from collections.abc import Mapping

from widetable.merge.aggregate_function import (
    IGNORE_RETRACT,
    AggregateColumn,
    Grouping,
    Retraction,
)
from widetable.merge.aggregate_functions import DEFAULT_FUNCTION, function_of
from widetable.runtime.derived_value import once_per_object
from widetable.schema.field_options import DEFAULT_FUNCTION_KEY
from widetable.schema.table_schema import SequenceGroup, TableSchema


def aggregate_column(schema: TableSchema, column: str) -> AggregateColumn | None:
    """Return a column with its own or the default function; None for keys and columns that order records."""
    return aggregate_columns(schema).get(column)


@once_per_object
def aggregate_columns(schema: TableSchema) -> dict[str, AggregateColumn]:
    """Return the columns that an option gives a function: few, while merges ask for thousands of columns often."""
    if not any(key.endswith("aggregate-function") for key in schema.options):
        return {}
    ordering = {name for group in schema.sequence_groups for name in group.sequence}
    without = {*schema.primary_keys, *schema.sequence_fields, *ordering}
    columns = {}
    for field in schema.fields:
        keys = (f"fields.{field.name}.aggregate-function", DEFAULT_FUNCTION_KEY)
        key = next((key for key in keys if key in schema.options), None)
        if key is not None and field.name not in without:
            columns[field.name] = AggregateColumn(schema, field, schema.options[key], key)
    return columns


@once_per_object
def columns_of_aggregation(schema: TableSchema) -> Mapping[str, AggregateColumn]:
    """Return the columns of an `aggregation` table that a function fills: neither the key nor ordering columns."""
    fixed = {*schema.primary_keys, *schema.sequence_fields}
    return {
        field.name: aggregate_column(schema, field.name)
        or AggregateColumn(schema, field, DEFAULT_FUNCTION)
        for field in schema.fields
        if field.name not in fixed
    }


@once_per_object
def columns_of_groups(schema: TableSchema) -> Mapping[str, AggregateColumn]:
    """Return the columns of a `partial-update` table that a function fills. They are protected by a sequence group: a
    column outside groups may only have the default, last_non_null_value.
    """
    groups = (columns_of_group(schema, group) for group in schema.sequence_groups)
    return {name: column for group in groups for name, column in group.items()}


def columns_of_group(schema: TableSchema, group: SequenceGroup) -> dict[str, AggregateColumn]:
    """Return the columns of one sequence group that a function fills."""
    columns = {name: aggregate_column(schema, name) for name in group.protected}
    return {name: column for name, column in columns.items() if column is not None}


def commutes(column: AggregateColumn) -> bool:
    """Whether adds give equal values in any order."""
    return function_of(column).grouping(column) in (Grouping.ANY, Grouping.ADDS)


def applies_retractions(column: AggregateColumn) -> bool:
    """Whether a retraction changes the column.

    Where neither this nor `refuses_retractions` holds, retractions are skipped.
    """
    is_refused = function_of(column).retraction is Retraction.REFUSED
    return not is_refused and not column.get(IGNORE_RETRACT)


def refuses_retractions(column: AggregateColumn) -> bool:
    """Whether a retraction cannot be merged."""
    is_refused = function_of(column).retraction is Retraction.REFUSED
    return is_refused and not column.get(IGNORE_RETRACT)
