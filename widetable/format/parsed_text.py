"""Parse texts to values: the inverse of `printed_value` for all types that are not nested.

    BOOLEAN                  true, false, 1, 0, in any case
    integers                 decimal digits, a minus before them
    FLOAT, DOUBLE            a decimal number, rounded to the nearest value; NaN, Infinity, -Infinity, or nan, inf, -inf
    DECIMAL                  a decimal number of no more digits than the type has
    CHAR, VARCHAR            the text
    BINARY, VARBINARY        hex digits, two a byte
    DATE, TIME               2024-02-29, 10:30:00.123 (`runtime.time_text`)
    TIMESTAMP                2024-02-29 10:30:00.123456789; no time zone
    TIMESTAMP_LTZ            also with a time zone: Z, UTC, +00:00, -05:30; without one it is UTC

Nothing is cut off: digits of the second that the type does not hold must be zeros, a number too large is refused.
Blanks around values are ignored, except for texts and bytes.

In: a column of texts, and the type; out: the type's Arrow column, null where the text is null. Raises InvalidError with
the first text that is no value of the type.

    DECIMAL(5, 2)      "1.50", " 2 "  1.50, 2.00;  "1.000"  1.00;  "1.005", "1e3"  refused
    TIMESTAMP(3)       "2024-02-29 10:30"  2024-02-29 10:30:00.000
    TIMESTAMP_LTZ(3)   "2024-02-29 10:30:00+01:00"  2024-02-29 09:30:00.000 UTC
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import shown
from widetable.errors import InvalidError
from widetable.format.civil_date import days_of
from widetable.runtime.time_text import AS_DAY, DATE, EIGHT_DIGITS, FORMS, MOMENT, TIME
from widetable.schema.types import DataType, arrow_type, timestamp_unit

_Ints: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]

_PER_SECOND: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_NANOS: Final = 10**9
_INTEGER: Final = r"\A-?[0-9]+\z"
_NUMBER: Final = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_NOT_FINITE: Final = r"\A[+-]?(?i:nan|inf|infinity)\z"
_HEX: Final = r"\A([0-9A-Fa-f]{2})*\z"


def parsed_texts(texts: pa.Array, kind: DataType) -> pa.Array:
    """Return a column of the type, which is not nested."""
    rule = _RULES[kind.root]
    given = texts if rule.keeps_blanks else pc.ascii_trim_whitespace(texts)
    try:
        return rule.values(given, kind)
    except (pa.ArrowException, ValueError) as cause:
        wrong = texts[first_refused(given, lambda part: rule.values(part, kind))].as_py()
        raise InvalidError(
            f"value of the type {kind}",
            found=shown(wrong),
            expected=rule.form,
            action="Correct the value.",
        ) from cause


def first_refused(values: Any, take: Callable[[Any], object]) -> int:
    """Return the position of the first value for which `take` raises ValueError, InvalidError or an ArrowException;
    there must be one. values: an Arrow column or a list.

    The search is binary, because `take` only shows that a part has such a value; it passes each value
    again once at most. All values before `low` are accepted, and the first refused one is before `high`.
    """
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            take(values[low:middle])
            low = middle
        except (pa.ArrowException, ValueError, InvalidError):
            high = middle
    return low


# Each rule raises ValueError or an ArrowException where a text is no value.


def _check(texts: pa.Array, pattern: str) -> None:
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        raise ValueError(f"a text that is not of the form {pattern}")


def _booleans(texts: pa.Array, kind: DataType) -> pa.Array:
    return texts.cast(pa.bool_())


def _integers(texts: pa.Array, kind: DataType) -> pa.Array:
    _check(texts, _INTEGER)
    return texts.cast(arrow_type(kind))


def _floats(texts: pa.Array, kind: DataType) -> pa.Array:
    values = texts.cast(arrow_type(kind))
    if not pc.all(pc.is_finite(values), min_count=0).as_py():
        # A number too large for the type becomes infinite.
        _check(texts.filter(pc.invert(pc.is_finite(values))), _NOT_FINITE)
    return values


def _decimals(texts: pa.Array, kind: DataType) -> pa.Array:
    """Parse decimals. Arrow casts texts with no more digits than the type; with more, or an exponent, its cast would
    wrap around.
    """
    _check(texts, _NUMBER)
    digits, scale = kind.precision or 0, kind.scale or 0
    plain = rf"\A[+-]?[0-9]{{0,{digits - scale}}}(\.[0-9]{{0,{scale}}})?\z"
    if pc.all(pc.match_substring_regex(texts, plain), min_count=0).as_py():
        return texts.cast(arrow_type(kind))
    values = [None if text is None else _exact(text, digits, scale) for text in texts.to_pylist()]
    return pa.array(values, arrow_type(kind))


def _exact(text: str, digits: int, scale: int) -> Decimal:
    """Return a number of the form _NUMBER; raise ValueError for too many digits, not counting zeros at its ends."""
    context = Context(
        prec=max(len(text), 1), Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation]
    )
    try:
        value = context.normalize(Decimal(text, context))
    except InvalidOperation as cause:
        raise ValueError(text) from cause
    _, figures, exponent = value.as_tuple()
    if value and (int(exponent) < -scale or len(figures) + int(exponent) > digits - scale):
        raise ValueError(text)
    return value


def _texts(texts: pa.Array, kind: DataType) -> pa.Array:
    return texts


def _binaries(texts: pa.Array, kind: DataType) -> pa.Array:
    _check(texts, _HEX)
    values = [None if text is None else bytes.fromhex(text) for text in texts.to_pylist()]
    return pa.array(values, arrow_type(kind))


def _dates(texts: pa.Array, kind: DataType) -> pa.Array:
    days = pc.replace_substring_regex(texts, rf"\A{EIGHT_DIGITS}\z", AS_DAY)
    parts = _Parts(days, DATE)
    days = parts.days()
    parts.check((days >= -(2**31)) & (days < 2**31))
    return parts.column(days.astype(np.int32), pa.int32(), kind)


def _times(texts: pa.Array, kind: DataType) -> pa.Array:
    parts = _Parts(texts, TIME)
    seconds, fraction = parts.clock("ms")
    return parts.column((seconds * 1000 + fraction).astype(np.int32), pa.int32(), kind)


def _timestamps(texts: pa.Array, kind: DataType) -> pa.Array:
    parts = _Parts(texts, MOMENT)
    unit = timestamp_unit(kind.precision or 0)
    of_day, fraction = parts.clock(unit)
    seconds = parts.days() * 86_400 + of_day
    if kind.root == "TIMESTAMP":
        parts.check_no_zone()
    else:
        seconds -= parts.ahead()
    least, most = divmod(-(2**63), _PER_SECOND[unit]), divmod(2**63 - 1, _PER_SECOND[unit])
    parts.check((seconds > least[0]) | ((seconds == least[0]) & (fraction >= least[1])))
    parts.check((seconds < most[0]) | ((seconds == most[0]) & (fraction <= most[1])))
    # The product may wrap around below the smallest number, and the sum wraps back.
    return parts.column(seconds * _PER_SECOND[unit] + fraction, pa.int64(), kind)


class _Parts:
    """Texts split into numbers by the named groups of a pattern: int64, 0 where a text is null or lacks the part.

    Null texts have zeros in all columns, so that numbers can be computed without a mask; `check`
    skips them, and `column` makes them null again.
    """

    def __init__(self, texts: pa.Array, pattern: str) -> None:
        groups = pc.extract_regex(texts, rf"\A(?:{pattern})\z")
        self._valid = np.asarray(texts.is_valid())
        self._groups = {field.name: groups.field(at) for at, field in enumerate(groups.type)}
        self.check(np.asarray(groups.is_valid()))

    def check(self, holds: _Flags) -> None:
        if not (holds | ~self._valid).all():
            raise ValueError("a part out of its range")

    def check_no_zone(self) -> None:
        self.check(np.asarray(pc.fill_null(pc.equal(self._groups["zone"], ""), True)))

    def _number(self, name: str) -> _Ints:
        if name not in self._groups:
            return np.zeros(len(self._valid), np.int64)
        texts = pc.utf8_ltrim(self._groups[name], "+")
        filled = pc.if_else(pc.equal(pc.fill_null(pc.binary_length(texts), 0), 0), "0", texts)
        return np.asarray(filled.cast(pa.int64()))

    def days(self) -> _Ints:
        """Return days since 1970-01-01."""
        days, is_day = days_of(self._number("year"), self._number("month"), self._number("day"))
        self.check(is_day)
        return np.where(self._valid, days, 0)

    def clock(self, unit: str) -> tuple[_Ints, _Ints]:
        """Return the second of the day, and the fraction in units."""
        hours, minutes = self._number("hour"), self._number("minute")
        seconds = (hours * 60 + minutes) * 60 + self._number("second")
        self._groups["fraction"] = pc.utf8_rpad(self._groups["fraction"], 9, "0")
        fraction, rest = np.divmod(self._number("fraction"), _NANOS // _PER_SECOND[unit])
        self.check(rest == 0)
        return seconds, fraction

    def ahead(self) -> _Ints:
        """Return the seconds by which the time zone is ahead of UTC."""
        seconds = (self._number("zone_hour") * 60 + self._number("zone_minute")) * 60
        is_behind = np.asarray(pc.fill_null(pc.equal(self._groups["sign"], "-"), False))
        return np.where(is_behind, -seconds, seconds)

    def column(
        self, stored: npt.NDArray[Any], stored_type: pa.DataType, kind: DataType
    ) -> pa.Array:
        values = pa.array(stored, stored_type, mask=~self._valid)
        return values.view(arrow_type(kind))


@dataclass(frozen=True)
class _TextRule:
    """How texts of a type are parsed. form: their form, in words. keeps_blanks: blanks around the value belong to
    it.
    """

    values: Callable[[pa.Array, DataType], pa.Array]
    form: str
    keeps_blanks: bool = False


_INTEGERS: Final = _TextRule(_integers, "a whole number that the type holds")
_FLOATS: Final = _TextRule(_floats, "a number that the type holds, NaN, Infinity or -Infinity")
_TEXTS: Final = _TextRule(_texts, "a text", keeps_blanks=True)
_BINARIES: Final = _TextRule(_binaries, "hex digits, two for each byte", keeps_blanks=True)
_RULES: Final[dict[str, _TextRule]] = {
    "BOOLEAN": _TextRule(_booleans, "true or false"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _INTEGERS),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _FLOATS),
    "DECIMAL": _TextRule(_decimals, "a number of no more digits than the type has"),
    **dict.fromkeys(("CHAR", "VARCHAR"), _TEXTS),
    **dict.fromkeys(("BINARY", "VARBINARY"), _BINARIES),
    "DATE": _TextRule(_dates, FORMS["DATE"]),
    "TIME": _TextRule(_times, FORMS["TIME"]),
    "TIMESTAMP": _TextRule(_timestamps, FORMS["TIMESTAMP"]),
    "TIMESTAMP_LTZ": _TextRule(_timestamps, FORMS["TIMESTAMP_LTZ"]),
}
