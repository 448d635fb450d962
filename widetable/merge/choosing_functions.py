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
from dataclasses import dataclass

import pyarrow as pa

from widetable.kernels.aggregate import first_values, greatest, last_non_nulls, last_values
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.key_lanes import key_lanes
from widetable.merge.aggregate_function import AggregateColumn, Grouping
from widetable.merge.fold import Fold, Rows


@dataclass(frozen=True)
class ChoosingFunction:
    """A function that chooses a record. choose: takes the fold and the column's values by record, returns a record of
    each key.
    """

    choose: Callable[[Fold, pa.Array], Rows]
    group: Grouping
    retracts: bool = False

    def counts_again(self, column: AggregateColumn) -> bool:
        """Return False: a record that is applied twice leads to the same choice."""
        return False

    def grouping(self, column: AggregateColumn) -> Grouping:
        return self.group

    def aggregate(self, fold: Fold, column: AggregateColumn) -> Rows:
        return self.choose(fold, fold.column(column.name))


def last_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the newest value, null included; null after a retraction, whatever its value."""
    return last_values(fold.starts, fold.floor, fold.steps)


def last_non_null_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the newest value that is not null; null after a retraction of a value, until the next value."""
    return last_non_nulls(fold.starts, fold.floor, fold.steps, valid_of(values))


def first_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the oldest value, null included."""
    valid = valid_of(values)
    return first_values(fold.starts, fold.floor, fold.steps, valid, nulls_count=True)


def first_non_null_value(fold: Fold, values: pa.Array) -> Rows:
    """Choose the oldest value that is not null."""
    valid = valid_of(values)
    return first_values(fold.starts, fold.floor, fold.steps, valid, nulls_count=False)


def maximum(fold: Fold, values: pa.Array) -> Rows:
    """Choose the greatest value in the order of keys; true is greater than false."""
    return greatest(fold.starts, fold.floor, fold.steps, valid_of(values), key_lanes([values]))


def minimum(fold: Fold, values: pa.Array) -> Rows:
    """Choose the smallest value in the order of keys."""
    lanes = key_lanes([values], descending=[True])
    return greatest(fold.starts, fold.floor, fold.steps, valid_of(values), lanes)
