"""Which function fills which column: the table from names to functions, and from a schema to its columns.

Source: Paimon `FieldAggregatorFactory`, `AggregateMergeFunction.Factory`; semantics.md sections 6.4 and 7. Pure; raises
InvalidError for option values that are none.

Precedence, as Paimon has it: keys and columns that order records have no function, whatever
options say; then the column's own option, then `fields.default-aggregate-function`. In
`aggregation` what is left goes by last_non_null_value; in `partial-update` such a column is
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
    """All columns of an `aggregation` table that a function fills: not the key, nor what orders records."""
    fixed = {*schema.primary_keys, *schema.sequence_fields}
    return {
        field.name: aggregate_column(schema, field.name)
        or AggregateColumn(schema, field, LAST_NON_NULL_VALUE)
        for field in schema.fields
        if field.name not in fixed
    }


@once_per_object
def columns_of_groups(schema: TableSchema) -> Mapping[str, AggregateColumn]:
    """The columns of a `partial-update` table that a function fills: protected ones. Alone, a column may have none but
    the function that it has anyhow.
    """
    groups = (columns_of_group(schema, group) for group in schema.sequence_groups)
    return {name: column for group in groups for name, column in group.items()}


def columns_of_group(schema: TableSchema, group: SequenceGroup) -> dict[str, AggregateColumn]:
    """The same of one sequence group."""
    found = {name: aggregate_column(schema, name) for name in group.protected}
    return {name: column for name, column in found.items() if column is not None}


def columns_that_count(schema: TableSchema) -> tuple[str, ...]:
    """Columns whose value is another one where an add comes twice; of tables whose rows replace each other none."""
    engine = schema.typed_options.get(opt.MERGE_ENGINE)
    if engine not in ("aggregation", "partial-update"):
        return ()
    columns = (columns_of_aggregation if engine == "aggregation" else columns_of_groups)(schema)
    return tuple(
        name for name, column in columns.items() if AGGREGATES[column.function].counts_again(column)
    )


def commutes(column: AggregateColumn) -> bool:
    """Whether adds give the same value in any order."""
    return AGGREGATES[column.function].grouping(column) in (Grouping.ANY, Grouping.ADDS)


def takes_back(column: AggregateColumn) -> bool:
    """Whether a retraction does something to the column.

    Where neither this holds nor `refuses_retractions`, retractions are passed over.
    """
    return AGGREGATES[column.function].retracts and not column.get(IGNORE_RETRACT)


def refuses_retractions(column: AggregateColumn) -> bool:
    """Whether a retraction cannot be merged."""
    return not AGGREGATES[column.function].retracts and not column.get(IGNORE_RETRACT)
