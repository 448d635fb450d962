"""Which function fills which column: the table of functions by name, and the aggregated columns of a schema.

Source: Paimon `FieldAggregatorFactory`, `AggregateMergeFunction.Factory`; semantics.md sections 6.4 and 7. Pure; raises
InvalidError for wrong option values.

Precedence, as in Paimon: keys and columns that order records have no function, whatever
options say; then the column's own option, then `fields.default-aggregate-function`. In
`aggregation` all other columns use last_non_null_value; in `partial-update` they are
replaced as `partial_update` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from widetable.merge.aggregate_function import IGNORE_RETRACT, Aggregate, AggregateColumn, Grouping
from widetable.merge.aggregate_rules import aggregate_column
from widetable.merge.choosing_functions import (
    ChoosingFunction,
    first_non_null_value,
    first_value,
    last_non_null_value,
    last_value,
    maximum,
    minimum,
)
from widetable.merge.element_functions import (
    COLLECT,
    MERGE_MAP,
    MERGE_MAP_BY_TIME,
    NESTED_PARTIAL_UPDATE,
    NESTED_UPDATE,
)
from widetable.merge.number_functions import PRODUCT, SUM
from widetable.merge.text_functions import ListAgg
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.table_schema import SequenceGroup, TableSchema

LAST_NON_NULL_VALUE: Final = "last_non_null_value"

AGGREGATES: Final[Mapping[str, Aggregate]] = {
    "last_value": ChoosingFunction(last_value, Grouping.LAST, retracts=True),
    LAST_NON_NULL_VALUE: ChoosingFunction(last_non_null_value, Grouping.IN_ORDER, retracts=True),
    "first_value": ChoosingFunction(first_value, Grouping.IN_ORDER),
    "first_non_null_value": ChoosingFunction(first_non_null_value, Grouping.IN_ORDER),
    "first_not_null_value": ChoosingFunction(first_non_null_value, Grouping.IN_ORDER),
    "max": ChoosingFunction(maximum, Grouping.ADDS),
    "min": ChoosingFunction(minimum, Grouping.ADDS),
    "bool_and": ChoosingFunction(minimum, Grouping.ADDS),
    "bool_or": ChoosingFunction(maximum, Grouping.ADDS),
    "sum": SUM,
    "product": PRODUCT,
    "listagg": ListAgg(),
    "collect": COLLECT,
    "merge_map": MERGE_MAP,
    "merge_map_with_keytime": MERGE_MAP_BY_TIME,
    "nested_update": NESTED_UPDATE,
    "nested_partial_update": NESTED_PARTIAL_UPDATE,
}


@once_per_object
def columns_of_aggregation(schema: TableSchema) -> Mapping[str, AggregateColumn]:
    """Return the columns of an `aggregation` table that a function fills: neither the key nor ordering columns."""
    fixed = {*schema.primary_keys, *schema.sequence_fields}
    return {
        field.name: aggregate_column(schema, field.name)
        or AggregateColumn(schema, field, LAST_NON_NULL_VALUE)
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


def columns_that_count(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns whose value changes when an add is applied twice; none in tables whose rows replace each
    other.
    """
    engine = schema.typed_options.get(opt.MERGE_ENGINE)
    if engine not in ("aggregation", "partial-update"):
        return ()
    columns = (columns_of_aggregation if engine == "aggregation" else columns_of_groups)(schema)
    return tuple(
        name for name, column in columns.items() if AGGREGATES[column.function].counts_again(column)
    )


def commutes(column: AggregateColumn) -> bool:
    """Whether adds give equal values in any order."""
    return AGGREGATES[column.function].grouping(column) in (Grouping.ANY, Grouping.ADDS)


def applies_retractions(column: AggregateColumn) -> bool:
    """Whether a retraction changes the column.

    Where neither this nor `refuses_retractions` holds, retractions are skipped.
    """
    return AGGREGATES[column.function].retracts and not column.get(IGNORE_RETRACT)


def refuses_retractions(column: AggregateColumn) -> bool:
    """Whether a retraction cannot be merged."""
    return not AGGREGATES[column.function].retracts and not column.get(IGNORE_RETRACT)
