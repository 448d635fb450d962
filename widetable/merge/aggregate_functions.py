"""The aggregate functions by name.

Source: Paimon `FieldAggregatorFactory`, `FieldAggregators`; semantics.md section 8. Errors list them in this order.
`aggregate_columns` says which function fills which column.
"""

from __future__ import annotations

from typing import Final

from widetable.merge.aggregate_function import Aggregate, AggregateColumn
from widetable.merge.choosing_functions import (
    BOOL_AND,
    BOOL_OR,
    FIRST_NON_NULL_VALUE,
    FIRST_VALUE,
    LAST_NON_NULL_VALUE,
    LAST_VALUE,
    MAX,
    MIN,
)
from widetable.merge.element_functions import (
    COLLECT,
    MERGE_MAP,
    MERGE_MAP_BY_TIME,
    NESTED_PARTIAL_UPDATE,
    NESTED_UPDATE,
)
from widetable.merge.number_functions import PRODUCT, SUM
from widetable.merge.text_functions import LISTAGG

# The function of columns for which no option names one.
DEFAULT_FUNCTION: Final = "last_non_null_value"

AGGREGATES: Final[dict[str, Aggregate]] = {
    "last_value": LAST_VALUE,
    DEFAULT_FUNCTION: LAST_NON_NULL_VALUE,
    "first_value": FIRST_VALUE,
    "first_non_null_value": FIRST_NON_NULL_VALUE,
    "first_not_null_value": FIRST_NON_NULL_VALUE,
    "max": MAX,
    "min": MIN,
    "sum": SUM,
    "product": PRODUCT,
    "bool_and": BOOL_AND,
    "bool_or": BOOL_OR,
    "listagg": LISTAGG,
    "collect": COLLECT,
    "merge_map": MERGE_MAP,
    "merge_map_with_keytime": MERGE_MAP_BY_TIME,
    "nested_update": NESTED_UPDATE,
    "nested_partial_update": NESTED_PARTIAL_UPDATE,
}
# Paimon's functions of binary sketches and bitmaps, which this version does not support; each takes VARBINARY.
REFUSED: Final = ("rbm32", "rbm64", "hll_sketch", "theta_sketch")


def function_of(column: AggregateColumn) -> Aggregate:
    """Return the function that fills a column."""
    return AGGREGATES[column.function]
