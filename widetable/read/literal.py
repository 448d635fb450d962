"""Values of a filter in a form that compares exactly with a column's values and its statistics.

A *comparable* is the plain value (`format.plain_value`), which Python's `<` and `==` order as Paimon orders the type,
except where SQL's comparisons differ from the order of files:

    integers, DECIMAL, DATE, TIME, TIMESTAMP   grid types: plain values count the type's smallest step;
                                               a literal between two steps is a Fraction
    FLOAT, DOUBLE                              (0, value), in which -0.0 is 0.0; NaN is (1, 0.0): larger than all
                                               numbers and equal to itself, as in Spark

No I/O. Raises InvalidError naming the column when a literal is not of the column's type.

    BIGINT          5, 5.0                        5
                    5.5                           Fraction(11, 2)
    DECIMAL(10, 2)  1.5                           150
                    1.005                         Fraction(201, 2)
    TIMESTAMP(3)    '2020-01-01'                  1577836800000
                    '2020-01-01 10:00:00.0005'    Fraction(3155745600001, 2)
    DATE            '2020-01-01'                  18262
    STRING          'é'                           its UTF-8, two bytes

A Fraction equals no value of its column, and lies between two of them in every comparison, so
that no literal of a grid type is rounded.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.format.civil_date import days_of
from widetable.format.plain_value import FLOATS, TEXTS, plain_column
from widetable.runtime.time_text import DATE, FORMS, MOMENT, TIME, TimeParts, parts_of
from widetable.schema.types import DataField, DataType, timestamp_unit

# A value that Python's operators compare; the module's docstring lists the types.
Comparable: TypeAlias = Any

NAN: Final = (1, 0.0)
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_EPOCH_TIME: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_BITS: Final = {
    "TINYINT": 8,
    "SMALLINT": 16,
    "INT": 32,
    "BIGINT": 64,
    "DATE": 32,
    "TIME": 32,
    "TIMESTAMP": 64,
    "TIMESTAMP_LTZ": 64,
}


class TimeLiteral(NamedTuple):
    """The literal DATE '..', TIME '..' or TIMESTAMP '..'. The column's type decides on zones and digits. It is not a
    text.
    """

    root: str
    text: str

    def __repr__(self) -> str:
        return repr(self.text)


def is_grid(t: DataType) -> bool:
    """Return whether the type's comparables are integers."""
    return t.root in _BITS or t.root == "DECIMAL"


def float_comparable(value: float) -> Comparable:
    """Return the comparable of a FLOAT or DOUBLE."""
    return NAN if math.isnan(value) else (0, value)


def comparable_of(t: DataType, value: Any) -> Comparable:
    """Return the comparable of a plain value."""
    return float_comparable(value) if t.root in FLOATS else value


def scalar_comparable(t: DataType, scalar: pa.Scalar) -> Comparable:
    """Return the comparable of an Arrow scalar that has the Arrow type of `t` and is not null."""
    if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return scalar.value
    if t.root in TEXTS:
        return scalar.as_buffer().to_pybytes()
    if t.root == "DECIMAL":
        return int(Fraction(scalar.as_py()) * 10 ** (t.scale or 0))
    return comparable_of(t, scalar.as_py())


def grid_range(t: DataType) -> tuple[int, int]:
    """Return the smallest and the largest comparable of a grid type."""
    if t.root == "DECIMAL":
        largest = 10 ** (t.precision or 0) - 1
        return -largest, largest
    half: int = 1 << (_BITS[t.root] - 1)
    return -half, half - 1


def scalar_of(t: DataType, value: Comparable) -> pa.Scalar:
    """Return the Arrow scalar of a comparable that the type can hold; a DOUBLE for both float types."""
    if t.root in FLOATS:
        return pa.scalar(math.nan if value[0] else value[1], pa.float64())
    return plain_column([value], t)[0]


def holds(t: DataType, value: Comparable) -> bool:
    """Return whether a column of this type can have the value at all."""
    if not is_grid(t):
        return True
    lowest, highest = grid_range(t)
    return isinstance(value, int) and lowest <= value <= highest


def literal(column: DataField, value: Any) -> Comparable:
    """Return the comparable of a literal of a filter, for one column.

    value: int, Decimal, float, bool, str, bytes, date, time, datetime or TimeLiteral. Text stands for a DATE,
    TIME or TIMESTAMP where the column is one (`runtime.time_text`); without a zone it is UTC for
    TIMESTAMP WITH LOCAL TIME ZONE. Numbers compare exactly, whatever their type.
    """
    root = column.type.root
    convert = _LITERALS.get(root)
    form = FORMS.get(root) if isinstance(value, str | TimeLiteral) else None
    try:
        if convert is not None:
            return convert(column.type, value)
    except (TypeError, ValueError, ArithmeticError):
        pass
    raise InvalidError(
        f"column {column.name!r}",
        found=f"the literal {value!r} in the filter",
        expected=form or f"a value that compares with {column.type}"
        if convert
        else f"IS NULL or IS NOT NULL on {column.type}",
        action="Correct the filter.",
    )


def _number(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(value)
    return Fraction(value)


def _on_grid(value: Fraction) -> int | Fraction:
    return int(value) if value.denominator == 1 else value


def _integer(t: DataType, value: Any) -> Comparable:
    return _on_grid(_number(value))


def _decimal(t: DataType, value: Any) -> Comparable:
    """Convert a number. A float means the shortest decimal that it prints as: 0.1 is a tenth, not a double."""
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    return _on_grid(_number(exact) * 10 ** (t.scale or 0))


def _floating(t: DataType, value: Any) -> Comparable:
    """Convert a number to the nearest double. Raises OverflowError for one outside of the range of doubles."""
    if isinstance(value, float) and not math.isfinite(value):
        return float_comparable(value)
    return float_comparable(float(_number(value)))


def _text(t: DataType, value: Any) -> Comparable:
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode()


def _instance(kind: type) -> Callable[[DataType, Any], Comparable]:
    def convert(t: DataType, value: Any) -> Comparable:
        if not isinstance(value, kind):
            raise TypeError(value)
        return value

    return convert


def _date(t: DataType, value: Any) -> Comparable:
    """Convert to days. A moment without a zone has a fraction of a day, as in Spark, where a DATE is its midnight."""
    if isinstance(value, TimeLiteral) and value.root == "TIMESTAMP":
        nanos, zoned = _epoch_nanos(value)
        if zoned:
            raise TypeError(value)
        return _on_grid(Fraction(nanos, 86_400 * 10**9))
    if isinstance(value, str | TimeLiteral):
        return _day(parts_of(_text_of(value, "DATE"), DATE))
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise TypeError(value)
    return value.toordinal() - _EPOCH


def _time(t: DataType, value: Any) -> Comparable:
    if isinstance(value, str | TimeLiteral):
        parts = parts_of(_text_of(value, "TIME"), TIME)
        return _on_grid(Fraction(parts.second * 10**9 + parts.nanos, 10**6))
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise TypeError(value)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _on_grid(Fraction(seconds * 10**6 + value.microsecond, 1000))


def _timestamp(t: DataType, value: Any) -> Comparable:
    """Convert to the type's unit. A TIMESTAMP has no zone, so a literal with a zone cannot be compared with it."""
    nanos, zoned = _epoch_nanos(value)
    if zoned and t.root == "TIMESTAMP":
        raise TypeError(value)
    return _on_grid(Fraction(nanos, _NANOS[timestamp_unit(t.precision or 0)]))


def _text_of(value: str | TimeLiteral, root: str) -> str:
    """Return the text of a literal of the type. Raises TypeError for the literal of another type."""
    if isinstance(value, str):
        return value
    if value.root != root:
        raise TypeError(value)
    return value.text


def _day(parts: TimeParts) -> int:
    """Return days since 1970. Raises ValueError for a day that the calendar lacks."""
    days, is_day = days_of(*(np.array([number]) for number in parts[:3]))
    if not is_day[0]:
        raise ValueError(parts)
    return int(days[0])


def _epoch_nanos(value: Any) -> tuple[int, bool]:
    """Return (nanoseconds since 1970 UTC, whether the value has a zone). A date means its midnight."""
    if isinstance(value, TimeLiteral) and value.root == "DATE":
        return _day(parts_of(value.text, DATE)) * 86_400 * 10**9, False
    if isinstance(value, str | TimeLiteral):
        parts = parts_of(_text_of(value, "TIMESTAMP"), MOMENT)
        seconds = _day(parts) * 86_400 + parts.second - (parts.zone_seconds or 0)
        return seconds * 10**9 + parts.nanos, parts.zone_seconds is not None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if not isinstance(value, dt.datetime):
        raise TypeError(value)
    zoned = value.tzinfo is not None
    since = (value if zoned else value.replace(tzinfo=dt.timezone.utc)) - _EPOCH_TIME
    return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000, zoned


_LITERALS: Final[dict[str, Callable[[DataType, Any], Comparable]]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _floating),
    **dict.fromkeys(TEXTS, _text),
    **dict.fromkeys(("BINARY", "VARBINARY"), _instance(bytes)),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), _timestamp),
    "DECIMAL": _decimal,
    "BOOLEAN": _instance(bool),
    "DATE": _date,
    "TIME": _time,
}
