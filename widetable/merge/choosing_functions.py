"""Aggregate functions that choose one of the values: last, first, greatest, smallest, and, or.

Source: Paimon `FieldLastValueAgg`, `FieldLastNonNullValueAgg`, `FieldFirstValueAgg`, `FieldFirstNonNullValueAgg`,
`FieldMaxAgg`, `FieldMinAgg`, `FieldBoolAndAgg`, `FieldBoolOrAgg`. They return record positions, so a value is gathered,
never computed. bool_and is the smallest of truth values, bool_or the greatest.

Each takes a fold and the column's values by record, and returns int64[c]: a record, -1 for null.
SKIP records are ignored; LATE records count as if they had come first, which makes no
difference to the greatest and the smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from widetable.kernels.aggregate import first_values, greatest, last_non_nulls, last_values
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.key_lanes import key_lanes
from widetable.merge.aggregate_function import (
    IGNORE_RETRACT,
    Aggregate,
    ColumnType,
    Grouping,
    Retraction,
    always,
    never,
    none,
    of_roots,
)
from widetable.merge.fold import Fold, Rows


def _last_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the newest value, null included; null after a retraction, whatever its value."""
    return last_values(fold.starts, fold.floor, fold.steps)


def _last_non_null_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the newest value that is not null; null after a retraction of a value, until the next value."""
    return last_non_nulls(fold.starts, fold.floor, fold.steps, valid_of(values))


def _first_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the oldest value, null included."""
    valid = valid_of(values)
    return first_values(fold.starts, fold.floor, fold.steps, valid, nulls_count=True)


def _first_non_null_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the oldest value that is not null."""
    valid = valid_of(values)
    return first_values(fold.starts, fold.floor, fold.steps, valid, nulls_count=False)


def _maximum(fold: Fold, values: pa.Array) -> Rows:
    """Choose the greatest value in the order of keys; true is greater than false."""
    return greatest(fold.starts, fold.floor, fold.steps, valid_of(values), key_lanes([values]))


def _minimum(fold: Fold, values: pa.Array) -> Rows:
    """Choose the smallest value in the order of keys."""
    lanes = key_lanes([values], descending=[True])
    return greatest(fold.starts, fold.floor, fold.steps, valid_of(values), lanes)


def _choice(
    choose: Callable[[Fold, pa.Array], Rows],
    column_type: ColumnType,
    grouping: Grouping,
    retraction: Retraction = Retraction.REFUSED,
    *,
    nulls_count: bool = False,
) -> Aggregate:
    """Return a function that chooses a record. choose: takes the fold and the column's values by record, returns a
    record of each key. A record that is applied twice leads to the same choice.
    """
    return Aggregate(
        column_type=column_type,
        aggregate=lambda fold, column: choose(fold, fold.column(column.name)),
        grouping=lambda column: grouping,
        retraction=retraction,
        by_order=always if grouping is Grouping.IN_ORDER else never,
        nulls_count=nulls_count,
        counts_again=never,
        tells_apart=never,
        normal_form=none,
        boundaries=None,
    )


_ANY: Final = ColumnType("any type", lambda kind: True)
_ORDERED: Final = ColumnType("a type that has an order", lambda kind: not kind.is_nested)
_BOOLEAN: Final = of_roots("BOOLEAN", "BOOLEAN")

LAST_VALUE: Final = replace(
    _choice(_last_value, _ANY, Grouping.LAST, Retraction.MERGED, nulls_count=True),
    # A retraction that is ignored stores its sequence all the same, so it decides which records are late.
    by_order=lambda column: column.get(IGNORE_RETRACT),
)
LAST_NON_NULL_VALUE: Final = _choice(_last_non_null_value, _ANY, Grouping.IN_ORDER, Retraction.LAST)
FIRST_VALUE: Final = _choice(_first_value, _ANY, Grouping.IN_ORDER, nulls_count=True)
FIRST_NON_NULL_VALUE: Final = _choice(_first_non_null_value, _ANY, Grouping.IN_ORDER)
MAX: Final = _choice(_maximum, _ORDERED, Grouping.ADDS)
MIN: Final = _choice(_minimum, _ORDERED, Grouping.ADDS)
BOOL_AND: Final = _choice(_minimum, _BOOLEAN, Grouping.ADDS)
BOOL_OR: Final = _choice(_maximum, _BOOLEAN, Grouping.ADDS)
