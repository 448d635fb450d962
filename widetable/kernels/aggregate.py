"""Aggregate a column, by adding up or choosing values, in one pass over the records of each key.

Positions count records in merge order: key c has starts[c] to starts[c + 1], and records before floor[c], or at it,
are ignored. steps[p] is the effect of a record on the column:

    SKIP     none
    ADD      it is applied behind all records so far
    LATE     it is applied now, and counts as if it had come first
    RETRACT  its value is retracted

Nothing is raised: where a result does not fit, the position of the record is returned. Callers guarantee the lengths.

Results for one key with the values 7, 8, 9:

    steps                 ADD ADD RETRACT   ADD LATE LATE   ADD LATE SKIP   ADD RETRACT LATE
    last_values                  -1               7               7               -1
    last_non_nulls               -1               7               7                9
    first_values                  7               9               8                9

Records come in arrival order, but a sequence group orders them by its sequence
(partial_update.py): a late record is older than the records that were applied before it. So it
becomes the first, and of several late ones the one that came last does; it is the last value only
where there is no other. Functions that do not depend on order treat it as an add.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Lanes, Mask, Positions
from widetable.kernels.jit import kernel

SKIP: Final = 0
ADD: Final = 1
LATE: Final = 2
RETRACT: Final = 3

Steps: TypeAlias = npt.NDArray[np.int8]
Values: TypeAlias = npt.NDArray[Any]

_MIN64 = np.int64(-(1 << 63))


def last_values(starts: Positions, floor: Positions, steps: Steps) -> Positions:
    """Return the record whose value, null included, is the newest; -1 after a retraction, and where there is none.

    A late record is never the newest, and is skipped, even where nothing else is left: see
    the last example of the module. The search starts at the end, so that a key costs only the
    records behind its last add.
    """
    records = np.empty(len(starts) - 1, np.int64)
    _last_values(starts, floor, steps, records)
    return records


@kernel
def _last_values(starts: Positions, floor: Positions, steps: Steps, records: Positions) -> None:
    for key in range(len(records)):
        records[key] = -1
        for position in range(starts[key + 1] - 1, max(starts[key], floor[key] + 1) - 1, -1):
            if steps[position] == ADD:
                records[key] = position
            if steps[position] == ADD or steps[position] == RETRACT:
                break


def last_non_nulls(starts: Positions, floor: Positions, steps: Steps, valid: Mask) -> Positions:
    """Return the newest record with a value. A late one counts where there is none; a retraction of a value leaves
    none.

    valid: by position, whether the column has a value there. A retraction of a null has no
    effect. Records are applied in the order of positions, because the effect of a late record
    depends on the state at that moment.
    """
    records = np.empty(len(starts) - 1, np.int64)
    _last_non_nulls(starts, floor, steps, valid, records)
    return records


@kernel
def _last_non_nulls(
    starts: Positions, floor: Positions, steps: Steps, valid: Mask, records: Positions
) -> None:
    for key in range(len(records)):
        chosen = np.int64(-1)
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if not valid[position] or steps[position] == SKIP:
                continue
            if steps[position] == RETRACT:
                chosen = np.int64(-1)
            elif steps[position] == ADD or chosen < 0:
                chosen = np.int64(position)
        records[key] = chosen


def first_values(
    starts: Positions, floor: Positions, steps: Steps, valid: Mask, *, nulls_count: bool
) -> Positions:
    """Return the oldest record, or the oldest with a value; the last late one comes before all, null included.

    nulls_count: a null is a value. Otherwise a late record that is null clears the result, and
    an add behind it may set it again; retractions have no effect on a first value.
    """
    records = np.empty(len(starts) - 1, np.int64)
    _first_values(starts, floor, steps, valid, nulls_count, records)
    return records


@kernel
def _first_values(
    starts: Positions,
    floor: Positions,
    steps: Steps,
    valid: Mask,
    nulls_count: bool,
    records: Positions,
) -> None:
    for key in range(len(records)):
        chosen = np.int64(-1)
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if steps[position] == LATE:
                chosen = np.int64(position) if nulls_count or valid[position] else np.int64(-1)
            elif steps[position] == ADD and chosen < 0 and (nulls_count or valid[position]):
                chosen = np.int64(position)
        records[key] = chosen


def greatest(
    starts: Positions, floor: Positions, steps: Steps, valid: Mask, lanes: Lanes
) -> Positions:
    """Return the record with the greatest value by lanes, of equal ones the first.

    Descending lanes (`key_lanes`) give the least value. The lanes of all records must come from
    one call: those of two calls are not comparable. Late records and retractions count like
    adds; to leave retractions out, make them SKIP.
    """
    records = np.empty(len(starts) - 1, np.int64)
    _greatest(starts, floor, steps, valid, lanes, records)
    return records


@kernel
def _greatest(
    starts: Positions,
    floor: Positions,
    steps: Steps,
    valid: Mask,
    lanes: Lanes,
    records: Positions,
) -> None:
    width = lanes.shape[1]
    for key in range(len(records)):
        chosen = np.int64(-1)
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if steps[position] == SKIP or not valid[position]:
                continue
            is_greater = chosen < 0
            if not is_greater:
                for lane in range(width):
                    if lanes[position, lane] != lanes[chosen, lane]:
                        is_greater = lanes[position, lane] > lanes[chosen, lane]
                        break
            if is_greater:
                chosen = np.int64(position)
        records[key] = chosen


@kernel
def sum_integers(
    starts: Positions,
    floor: Positions,
    steps: Steps,
    valid: Mask,
    values: Positions,
    lowest: int,
    highest: int,
    sums: Positions,
    sums_valid: Mask,
) -> int:
    """Fill `sums`, and return the position of the first record whose sum exceeds the bounds, otherwise -1.

    values int64, widened from the column's type; the bounds are the limits of that type, so a
    result can be cast back. The sum of a key whose first step is a retraction begins with
    its negative. Results of keys behind the reported record are undefined: the caller raises.
    """
    for key in range(len(sums)):
        total, has_total = np.int64(0), False
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if steps[position] == SKIP or not valid[position]:
                continue
            value, has_total = values[position], True
            # The bounds are checked before the addition: compilers assume that signed integers never wrap.
            if steps[position] == RETRACT:
                if total > highest + value if value < 0 else total < lowest + value:
                    return int(position)
                total -= value
            else:
                if total < lowest - value if value < 0 else total > highest - value:
                    return int(position)
                total += value
        sums[key], sums_valid[key] = total, has_total
    return -1


@kernel
def sum_floats(
    starts: Positions,
    floor: Positions,
    steps: Steps,
    valid: Mask,
    values: Values,
    sums: Values,
    sums_valid: Mask,
) -> None:
    """Add from left to right, in the width of the values. The first value is copied, so that -0.0 stays -0.0."""
    for key in range(len(sums)):
        sums[key], sums_valid[key] = 0, False
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if steps[position] == SKIP or not valid[position]:
                continue
            if not sums_valid[key]:
                sums[key] = -values[position] if steps[position] == RETRACT else values[position]
            elif steps[position] == RETRACT:
                sums[key] = sums[key] - values[position]
            else:
                sums[key] = sums[key] + values[position]
            sums_valid[key] = True


@kernel
def sum_wide(
    starts: Positions,
    floor: Positions,
    steps: Steps,
    valid: Mask,
    words: Lanes,
    bound: Lanes,
    sums: Lanes,
    sums_valid: Mask,
) -> int:
    """Add integers of 128 bits, low word first. A sum whose size reaches the bound is null, and the next value starts a
    new sum. Return the position of the last record where that happened, -1 for none.

    words: two per record, bound: two, above zero. The caller chooses it by the precision: 2**31
    or 2**63 where the integer in the file is what overflows, otherwise 10**precision.
    """
    sign = np.uint64(1 << 63)
    zero, one = np.uint64(0), np.uint64(1)
    passed = -1
    for key in range(len(sums_valid)):
        low, high, has_total = zero, zero, False
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if steps[position] == SKIP or not valid[position]:
                continue
            # Two's complement in two words. To negate is to invert and add one, and the one is
            # carried into the high word only if the low word was zero before (and so is zero
            # after).
            low2, high2 = words[2 * position], words[2 * position + 1]
            if steps[position] == RETRACT:
                low2 = ~low2 + one
                high2 = ~high2 + (one if low2 == zero else zero)
            total_low = low + low2
            total_high = high + high2 + (one if total_low < low2 else zero)
            size_low, size_high = total_low, total_high
            if total_high & sign:
                size_low = ~total_low + one
                size_high = ~total_high + (one if size_low == zero else zero)
            # 2 * 10**38 < 2**128 - 10**38: a sum of two decimals that wraps is not below the
            # bound either. The signs show it for any two words.
            same_signs = (high & sign) == (high2 & sign)
            wraps = same_signs and (total_high & sign) != (high & sign)
            is_below = size_high < bound[1] or (size_high == bound[1] and size_low < bound[0])
            has_total = bool(is_below and not wraps)
            if has_total:
                low, high = total_low, total_high
            else:
                low, high = zero, zero
                passed = position
        sums[2 * key], sums[2 * key + 1], sums_valid[key] = low, high, has_total
    return passed


@kernel
def _product_fits(left: np.int64, right: np.int64, lowest: int, highest: int) -> bool:
    """Whether the product is within the bounds. Sizes are negative, because the lowest integer has no positive size."""
    # |left| <= |most| // |right|, all three negated. A divisor of -1 is handled separately, because the
    # lowest integer divided by -1 does not fit.
    left_size = left if left < 0 else -left
    right_size = right if right < 0 else -right
    most = lowest if (left < 0) != (right < 0) else -highest
    if left_size == 0 or right_size == 0:
        return True
    return bool(left_size >= (most if right_size == -1 else -(most // right_size)))


@kernel
def multiply_integers(
    starts: Positions,
    floor: Positions,
    steps: Steps,
    valid: Mask,
    values: Positions,
    lowest: int,
    highest: int,
    products: Positions,
    products_valid: Mask,
) -> int:
    """Fill `products`; a retraction divides and cuts off the fraction, and has no effect before the first add. Return
    the position of the first record whose result exceeds the bounds, or that divides by zero; otherwise -1.
    """
    for key in range(len(products)):
        total, has_total = np.int64(0), False
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if steps[position] == SKIP or not valid[position]:
                continue
            value = values[position]
            if steps[position] == RETRACT:
                if not has_total:
                    continue
                if value == 0 or (value == -1 and total == _MIN64):
                    return int(position)
                # Java cuts off towards zero, // rounds down: they differ by one where signs differ
                # and there is a remainder.
                quotient = total // value
                if quotient * value != total and (total < 0) != (value < 0):
                    quotient += 1
                total = quotient
            elif not has_total:
                total, has_total = value, True
            elif _product_fits(total, value, lowest, highest):
                total *= value
            else:
                return int(position)
            if total < lowest or total > highest:
                return int(position)
        products[key], products_valid[key] = total, has_total
    return -1


@kernel
def multiply_floats(
    starts: Positions,
    floor: Positions,
    steps: Steps,
    valid: Mask,
    values: Values,
    products: Values,
    products_valid: Mask,
) -> None:
    """Multiply from left to right, in the width of the values; a retraction divides, and has no effect before an add.

    A division by zero gives an infinity or NaN, as in Java, and is not reported.
    """
    for key in range(len(products)):
        products[key], products_valid[key] = 0, False
        for position in range(max(starts[key], floor[key] + 1), starts[key + 1]):
            if steps[position] == SKIP or not valid[position]:
                continue
            if steps[position] == RETRACT:
                if products_valid[key]:
                    products[key] = products[key] / values[position]
                continue
            if products_valid[key]:
                products[key] = products[key] * values[position]
            else:
                products[key] = values[position]
            products_valid[key] = True
