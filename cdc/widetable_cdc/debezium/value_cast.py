"""Values with the marks of those that their column does not hold.

    ["1", "x", null] as BIGINT      values [1, null, null], is_bad [false, true, false]

In: Arrow columns. Out: `MarkedValues`, null where they are bad. Arrow casts a column as a whole, or refuses it as a
whole; then halves are cast, so a few bad values in a long column cost little. Raises nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

# Of the years 0001 and 9999, which SQL has.
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
_DAY_SECONDS: Final = 86_400


class MarkedValues(NamedTuple):
    """Values, null where they are bad. is_bad: bool[n]."""

    values: pa.Array
    is_bad: Mask

    def then(self, type: pa.DataType) -> MarkedValues:
        """MarkedValues the values once more."""
        values, is_bad = cast(self.values, type)
        return MarkedValues(values, is_bad | self.is_bad)

    def but(self, is_bad: Mask) -> MarkedValues:
        """Mark more values as bad."""
        if not is_bad.any():
            return self
        bad = self.is_bad | is_bad
        return MarkedValues(
            pc.if_else(pa.array(bad), pa.scalar(None, self.values.type), self.values), bad
        )


def good(values: pa.Array) -> MarkedValues:
    """Return values of which none is bad."""
    return MarkedValues(values, np.zeros(len(values), np.bool_))


def bad(count: int, type: pa.DataType) -> MarkedValues:
    """Return values that are all bad."""
    return MarkedValues(pa.nulls(count, type), np.ones(count, np.bool_))


def cast(values: pa.Array, type: pa.DataType) -> MarkedValues:
    """MarkedValues values, without loss: those that the type does not hold are bad."""
    if values.type == type:
        return good(values)
    try:
        return good(values.cast(type))
    except pa.ArrowNotImplementedError:
        is_there = np.asarray(values.is_valid())
        return MarkedValues(pa.nulls(len(values), type), is_there)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return bad(1, type)
    half = len(values) // 2
    left, right = cast(values.slice(0, half), type), cast(values.slice(half), type)
    joined = pa.concat_arrays([left.values, right.values])
    return MarkedValues(joined, np.concatenate([left.is_bad, right.is_bad]))


def chosen(keeps: Mask, left: MarkedValues, right: MarkedValues) -> MarkedValues:
    """Return the left values where `keeps`, else the right ones. Both have one type."""
    if keeps.all():
        return left
    if not keeps.any():
        return right
    values = pc.if_else(pa.array(keeps), left.values, right.values)
    return MarkedValues(values, np.where(keeps, left.is_bad, right.is_bad))


def days(numbers: MarkedValues, type: pa.DataType) -> MarkedValues:
    """Return days since 1970-01-01, int64, as a date; bad outside of the years 1 to 9999."""
    ranged = _between(numbers, _FIRST_DAY, _LAST_DAY)
    return MarkedValues(ranged.values.cast(pa.int32()).cast(pa.date32()), ranged.is_bad).then(type)


def moments(numbers: MarkedValues, digits: int, type: pa.DataType) -> MarkedValues:
    """Return units since 1970, int64, as a timestamp. digits: 3, 6 or 9, of the second, that a unit counts."""
    second = 10**digits
    first, last = _FIRST_DAY * _DAY_SECONDS * second, (_LAST_DAY + 1) * _DAY_SECONDS * second - 1
    ranged = numbers if digits == 9 else _between(numbers, first, last)
    zone = type.tz if pa.types.is_timestamp(type) else None
    unit = {3: "ms", 6: "us", 9: "ns"}[digits]
    return MarkedValues(ranged.values.cast(pa.timestamp(unit, zone)), ranged.is_bad).then(type)


def times_of_day(numbers: MarkedValues, digits: int, type: pa.DataType) -> MarkedValues:
    """Return units since midnight, int64, as a time of day. digits: 3, 6 or 9, of the second, that a unit counts."""
    ranged = _between(numbers, 0, _DAY_SECONDS * 10**digits - 1)
    if digits == 3:
        values = ranged.values.cast(pa.int32()).cast(pa.time32("ms"))
    else:
        values = ranged.values.cast(pa.time64("us" if digits == 6 else "ns"))
    return MarkedValues(values, ranged.is_bad).then(type)


def zoned_moments(texts: pa.Array, type: pa.DataType) -> MarkedValues:
    """Return texts of ISO 8601 with an offset as timestamps: those of UTC, if the type has no zone."""
    if not pa.types.is_timestamp(type):
        return cast(texts, type)
    moment = cast(texts, pa.timestamp(type.unit, "UTC"))
    if moment.is_bad.any() and type.unit != "ns":
        # More digits than the unit has may be zeros.
        fine = cast(texts, pa.timestamp("ns", "UTC")).then(pa.timestamp(type.unit, "UTC"))
        moment = chosen(~moment.is_bad, moment, fine)
    return moment.then(type)


def _between(numbers: MarkedValues, first: int, last: int) -> MarkedValues:
    values = numbers.values
    outside = pc.or_(pc.less(values, first), pc.greater(values, last)).fill_null(False)
    return numbers.but(np.asarray(outside))
