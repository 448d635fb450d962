"""Aggregate functions that compute numbers: sum and product.

Source: Paimon `FieldSumAgg`, `FieldProductAgg`; semantics.md section 8. Integers that exceed their type are an error.
Floats are added from left to right in their own width. DECIMAL, sum: up to 18 digits it may be what the integer of a
file holds; above 18, a sum of too many digits is null, and the next value starts a new sum. DECIMAL, product: rounded
half up to the scale after each step, null when it does not fit; a retraction divides, and a quotient with infinitely
many digits is an error.

    rounded half up   2.5 to 3, -2.5 to -3        DECIMAL(4,2)   10.00 / 4.00 = 2.50, 10.00 / 3.00: an error

A sum of nulls is null, the sum of a single retraction is its negative; null records are skipped.
docs/decisions/0031 says why sums of FLOAT, DOUBLE and wide DECIMAL, and all products, are merged
from the oldest record on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.aggregate import (
    RETRACT,
    SKIP,
    multiply_floats,
    multiply_integers,
    sum_floats,
    sum_integers,
    sum_wide,
)
from widetable.kernels.arrow_buffers import bitmap, fixed_values, frozen, number_type, valid_of
from widetable.merge.aggregate_function import (
    Aggregate,
    AggregateColumn,
    Grouping,
    Retraction,
    always,
    never,
    none,
    of_roots,
    unmergeable,
)
from widetable.merge.fold import Fold, spans
from widetable.merge.plan import Computed

_Loop: TypeAlias = Callable[..., Any]
_NUMBER: Final = of_roots(
    "a number", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"
)
# Digits of a decimal that Paimon stores as an int or a long of Parquet files.
_INT_DIGITS: Final = 9
_LONG_DIGITS: Final = 18


@dataclass(frozen=True)
class _Arithmetic:
    """How numbers are computed. integers, floats: the kernels; decimals: computes values by key from values by
    record.
    """

    integers: _Loop
    floats: _Loop
    decimals: Callable[[Fold, AggregateColumn, pa.Array], pa.Array]

    def aggregate(self, fold: Fold, column: AggregateColumn) -> Computed:
        values = fold.column(column.name)
        if pa.types.is_decimal(values.type):
            computed = self.decimals(fold, column, values)
        elif pa.types.is_floating(values.type):
            computed = self._float_results(fold, values)
        else:
            computed = self._integer_results(fold, column, values)
        return fold.computed(column.name, computed, or_last=not column.field.type.nullable)

    def _float_results(self, fold: Fold, values: pa.Array) -> pa.Array:
        kind = number_type(values.type)
        results = np.zeros(len(fold.keys), kind)
        valid = np.zeros(len(fold.keys), np.bool_)
        records = fixed_values(values, kind)
        self.floats(fold.starts, fold.floor, fold.steps, valid_of(values), records, results, valid)
        return pa.array(results, values.type, mask=~valid)

    def _integer_results(self, fold: Fold, column: AggregateColumn, values: pa.Array) -> pa.Array:
        """Compute in 64 bits, for all widths, and check the bounds of the column's type at every step."""
        kind = number_type(values.type)
        bounds = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
        records = frozen(fixed_values(values, kind).astype(np.int64))
        results, valid = np.zeros(len(fold.keys), np.int64), np.zeros(len(fold.keys), np.bool_)
        args = fold.starts, fold.floor, fold.steps, valid_of(values), records, *bounds
        wrong = self.integers(*args, results, valid)
        if wrong >= 0:
            raise unmergeable(
                fold, column, wrong, "a result that does not fit, or a division by zero"
            )
        return pa.array(results, pa.int64(), ~valid).cast(values.type)


def least_too_large(digits: int) -> int:
    """Return the smallest unscaled size that a sum of decimals of so many digits does not hold.

    Up to 18 digits it is what the file's integer does not hold; 99.99 + 0.02 in DECIMAL(4,2) is 100.01, as in Paimon.
    """
    if digits > _LONG_DIGITS:
        return int(10**digits)
    return 1 << 31 if digits <= _INT_DIGITS else 1 << 63


def _sum_decimals(fold: Fold, column: AggregateColumn, values: pa.Array) -> pa.Array:
    """Return sums by key. Raises InvalidError for a sum of up to 18 digits that its file's integer does not hold."""
    digits = values.type.precision
    words = fixed_values(values, np.uint64)
    results = np.zeros(2 * len(fold.keys), np.uint64)
    valid = np.zeros(len(fold.keys), np.bool_)
    bound = least_too_large(digits)
    low_high = np.array([bound & (2**64 - 1), bound >> 64], np.uint64)
    passed = sum_wide(
        fold.starts, fold.floor, fold.steps, valid_of(values), words, low_high, results, valid
    )
    if passed >= 0 and digits <= _LONG_DIGITS:
        raise unmergeable(fold, column, passed, "a sum that does not fit")
    return _decimals_from_words(results, valid, values.type)


def _multiply_decimals(fold: Fold, column: AggregateColumn, values: pa.Array) -> pa.Array:
    """Return products by key. Raises InvalidError for a division that has no result."""
    scale, most = 10**values.type.scale, 10**values.type.precision
    records, valid = _unscaled(values), valid_of(values).tolist()
    steps = fold.steps.tolist()
    results: list[int | None] = []
    for first, end in spans(fold):
        total: int | None = None
        for record in range(first, end):
            if steps[record] == SKIP or not valid[record]:
                continue
            value = records[record]
            if steps[record] != RETRACT:
                total = value if total is None else _rounded(Fraction(total * value, scale), most)
            elif total is not None:
                if not _is_finite(total, value):
                    finding = "a division by zero, or a quotient without an end"
                    raise unmergeable(fold, column, record, finding)
                total = _rounded(Fraction(total * scale, value), most)
        results.append(total)
    # Two's complement in 128 bits, low word first: Arrow's layout.
    words = [(0 if r is None else r) & (2**128 - 1) for r in results]
    pairs = np.array([(w & (2**64 - 1), w >> 64) for w in words], np.uint64).reshape(-1)
    return _decimals_from_words(
        pairs, np.array([r is not None for r in results], np.bool_), values.type
    )


def _rounded(exact: Fraction, most: int) -> int | None:
    """Round half up, away from zero; return None for too many digits."""
    size = (2 * abs(exact.numerator) + exact.denominator) // (2 * exact.denominator)
    return None if size >= most else (size if exact >= 0 else -size)


def _is_finite(dividend: int, divisor: int) -> bool:
    """Whether the quotient has finitely many decimal digits."""
    if divisor == 0:
        return False
    rest = Fraction(dividend, divisor).denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _unscaled(values: pa.Array) -> list[int]:
    """Return the unscaled integers of decimals; the value at a null is undefined."""
    words = fixed_values(values, np.uint64).reshape(-1, 2).tolist()
    return [(high << 64 | low) - ((high >> 63) << 128) for low, high in words]


def _decimals_from_words(
    words: npt.NDArray[np.uint64], valid: npt.NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    """Return decimals from pairs of words, low word first; null where not valid."""
    return pa.Array.from_buffers(kind, len(valid), [bitmap(valid), pa.py_buffer(words)])


def _grouping_of_sums(column: AggregateColumn) -> Grouping:
    """Return ANY for integers, whose sums are equal in any order unless an intermediate sum exceeds the type."""
    root, digits = column.field.type.root, column.field.type.precision or 0
    is_exact = root not in ("FLOAT", "DOUBLE") and digits <= _LONG_DIGITS
    return Grouping.ANY if is_exact else Grouping.NEVER


def _number(
    arithmetic: _Arithmetic,
    retraction: Retraction,
    grouping: Callable[[AggregateColumn], Grouping],
) -> Aggregate:
    """Return a function that computes numbers. Each record changes the number, also when it is applied twice."""
    return Aggregate(
        column_type=_NUMBER,
        aggregate=arithmetic.aggregate,
        grouping=grouping,
        retraction=retraction,
        by_order=never,
        nulls_count=False,
        counts_again=always,
        tells_apart=never,
        normal_form=none,
        boundaries=None,
    )


SUM: Final = _number(
    _Arithmetic(sum_integers, sum_floats, _sum_decimals), Retraction.MERGED, _grouping_of_sums
)
# No add is equivalent to a retraction: it divides.
PRODUCT: Final = _number(
    _Arithmetic(multiply_integers, multiply_floats, _multiply_decimals),
    Retraction.APART,
    lambda column: Grouping.NEVER,
)
