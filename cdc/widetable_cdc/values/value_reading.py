"""How the values of a type are read: by which expression they are copied, and how texts and copies become a `Cast`.

A reading is made for a type of the target. Texts come from the log as the server prints them with the settings of
`session_settings.py`; copies are what ADBC gives for the expression `template`. Both become the same values. Pure;
raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.values.array_elements import array_elements
from widetable_cdc.values.hex_bytes import hex_bytes
from widetable_cdc.values.text_cast import Cast, Flags, Parse, masked_cast, text_cast, whole_cast

_AS_IT_IS: Final = "{0}"
_CAST_TO_TEXT: Final = "{0}::text"
# `text` of some types (inet, bool) prints them otherwise than the log does; `format` prints as the log. A composite of
# nulls is not null, so it must not be asked by IS NULL.
_PRINTED: Final = "CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END"

_DAYS: Final = (-719_162, 2_932_896)
_DAY_MICROS: Final = 86_400_000_000
_MICROS: Final = (_DAYS[0] * _DAY_MICROS, (_DAYS[1] + 1) * _DAY_MICROS - 1)
_YEARS: Final = "infinity, or a year that is not between 1 and 9999"


@dataclass(frozen=True)
class ValueReading:
    """How values are read. template: the expression to copy, of a column {0}. arrow: the type of the values, as far as
    it is one: texts and bytes have 64-bit offsets. texts: from large_string. copies: from ADBC's arrays.
    """

    template: str
    arrow: pa.DataType
    texts: Callable[[pa.Array], Cast]
    copies: Callable[[pa.Array], Cast]


def text_reading(template: str = _AS_IT_IS, *, is_padded: bool = False) -> ValueReading:
    """Read texts as they are. is_padded: spaces at their ends are left out."""

    def read(texts: pa.Array) -> Cast:
        texts = texts.cast(pa.large_string())
        return whole_cast(pc.utf8_rtrim(texts, " ") if is_padded else texts, "")

    return ValueReading(template, pa.large_string(), read, read)


def cast_to_text_reading() -> ValueReading:
    """Read what the server casts to `text` as it prints it."""
    return text_reading(_CAST_TO_TEXT)


def printed_reading() -> ValueReading:
    """Read any type as the server prints it."""
    return text_reading(_PRINTED)


def bytes_reading() -> ValueReading:
    """Read bytea, whose texts are hexadecimal digits."""

    def copied(values: pa.Array) -> Cast:
        return whole_cast(values.cast(pa.large_binary()), "")

    return ValueReading(_AS_IT_IS, pa.large_binary(), hex_bytes, copied)


def bool_reading() -> ValueReading:
    """Read bool, whose texts are t and f."""

    def parse(texts: pa.Array) -> pa.Array:
        is_true = pc.equal(texts, "t")
        if pc.all(pc.or_(is_true, pc.equal(texts, "f"))).as_py() is False:
            raise pa.ArrowInvalid("not t or f")
        return is_true

    return _parsed_reading(pa.bool_(), parse, "a text that is not t or f", "^[tf]$")


def number_reading(arrow: pa.DataType) -> ValueReading:
    """Read integers or floats of this type."""
    form = "^-?[0-9]{1,19}$" if pa.types.is_integer(arrow) else "^[-+.0-9eInfityaN]+$"
    return _parsed_reading(arrow, _to(arrow), f"a text that is no number of type {arrow}", form)


def widened_reading(inner: ValueReading, arrow: pa.DataType) -> ValueReading:
    """Read values of a type as a wider one, which holds each of them."""

    def widened(read: Callable[[pa.Array], Cast]) -> Callable[[pa.Array], Cast]:
        def cast(values: pa.Array) -> Cast:
            narrow = read(values)
            return Cast(narrow.values.cast(arrow), narrow.bad, narrow.reason)

        return cast

    return ValueReading(inner.template, arrow, widened(inner.texts), widened(inner.copies))


def decimal_reading(precision: int, scale: int, *, is_rounded: bool) -> ValueReading:
    """Read numeric. is_rounded: digits behind the scale are rounded, halves away from zero; else they are bad."""
    arrow = pa.decimal128(precision, scale)
    whole = precision - scale
    behind = "[0-9]+" if is_rounded else f"[0-9]{{1,{max(scale, 1)}}}"
    form = rf"^-?[0-9]{{1,{max(whole, 1)}}}(\.{behind})?$"
    reason = f"NaN, infinity, or a number that DECIMAL({precision}, {scale}) does not hold"
    exact = _to(arrow)
    parse = _rounding(precision, scale) if is_rounded else exact

    def read(texts: pa.Array) -> Cast:
        return text_cast(texts.cast(pa.large_string()), parse, reason, form)

    return ValueReading(_CAST_TO_TEXT, arrow, read, read)


def date_reading() -> ValueReading:
    """Read dates of the years 1 to 9999."""
    parse = _to(pa.date32())

    def texts(values: pa.Array) -> Cast:
        return text_cast(values, parse, _YEARS, r"^\d{4}-\d\d-\d\d$")

    def copied(values: pa.Array) -> Cast:
        return masked_cast(values, _outside(values, pa.int32(), *_DAYS), _YEARS)

    return ValueReading(_AS_IT_IS, pa.date32(), texts, copied)


def timestamp_reading(digits: int, zone: str | None) -> ValueReading:
    """Read timestamps of the years 1 to 9999. digits: of the second, at most 6."""
    arrow = pa.timestamp("ms" if digits <= 3 else "us", zone)
    parse = _to(arrow)
    form = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?" + (r"[-+][:\d]+$" if zone else "$")

    def texts(values: pa.Array) -> Cast:
        return text_cast(values, parse, _YEARS, form)

    def copied(values: pa.Array) -> Cast:
        cast = masked_cast(values, _outside(values, pa.int64(), *_MICROS), _YEARS)
        return Cast(cast.values.cast(arrow), cast.bad, _YEARS)

    return ValueReading(_AS_IT_IS, arrow, texts, copied)


def time_reading() -> ValueReading:
    """Read times of whole milliseconds, before 24:00."""
    arrow = pa.time32("ms")
    reason = "24:00, or a time with microseconds, which TIME does not hold"

    day, space = (pa.scalar(text, pa.large_string()) for text in ("1970-01-01", " "))

    def parse(texts: pa.Array) -> pa.Array:
        moments = pc.binary_join_element_wise(day, texts, space).cast(pa.timestamp("us"))
        return moments.cast(pa.time64("us")).cast(arrow)

    def texts(values: pa.Array) -> Cast:
        return text_cast(values, parse, reason, r"^\d\d:\d\d:\d\d(\.\d{1,3})?$")

    def copied(values: pa.Array) -> Cast:
        bad = _outside(values, pa.int64(), 0, _DAY_MICROS - 1)
        micros = pc.fill_null(values.view(pa.int64()), 0).to_numpy()
        cast = masked_cast(values, bad | (micros % 1000 != 0), reason)
        return Cast(cast.values.cast(arrow), cast.bad, reason)

    return ValueReading(_AS_IT_IS, arrow, texts, copied)


def array_reading(element: ValueReading, target: str) -> ValueReading:
    """Read one-dimensional arrays. element: reads their elements. target: the type's text, for reasons."""
    arrow = pa.large_list(pa.field("element", element.arrow))

    def read(texts: pa.Array) -> Cast:
        texts = texts.cast(pa.large_string())
        cut = array_elements(texts)
        cast = element.texts(cut.texts)
        reason = f"not a one-dimensional array of {target}"
        bad = cut.bad.copy()
        if cast.bad.any():
            rows = np.repeat(np.arange(len(texts)), np.diff(cut.offsets))
            bad[rows[cast.bad]] = True
            reason += f", or an element that is {cast.reason}"
        is_null = pc.or_(pc.is_null(texts), pa.array(bad))
        mask = is_null if pc.any(is_null).as_py() else None
        offsets = pa.array(cut.offsets)
        values = pa.LargeListArray.from_arrays(offsets, cast.values, type=arrow, mask=mask)
        return Cast(values, bad, reason)

    return ValueReading(_CAST_TO_TEXT, arrow, read, read)


def _parsed_reading(arrow: pa.DataType, parse: Parse, reason: str, form: str) -> ValueReading:
    """Read what ADBC gives in the target's type."""

    def texts(values: pa.Array) -> Cast:
        return text_cast(values, parse, reason, form)

    def copied(values: pa.Array) -> Cast:
        return whole_cast(values.cast(arrow), reason)

    return ValueReading(_AS_IT_IS, arrow, texts, copied)


def _to(arrow: pa.DataType) -> Parse:
    def parse(texts: pa.Array) -> pa.Array:
        return texts.cast(arrow)

    return parse


def _rounding(precision: int, scale: int) -> Parse:
    """Return a parser that rounds to the scale. One digit behind it decides, so more are cut off before."""
    arrow, wide = pa.decimal128(precision, scale), pa.decimal256(76, scale + 1)
    rest = rf"(\.[0-9]{{{scale + 1}}})[0-9]+$"

    def parse(texts: pa.Array) -> pa.Array:
        cut = pc.replace_substring_regex(texts, rest, r"\1")
        rounded = pc.round(cut.cast(wide), scale, "half_towards_infinity")
        return rounded.cast(arrow)

    return parse


def _outside(values: pa.Array, integers: pa.DataType, least: int, most: int) -> Flags:
    """Return which values are not between two numbers, in the integers that they consist of."""
    numbers = pc.fill_null(values.view(integers), 0).to_numpy()
    outside: Flags = (numbers < least) | (numbers > most)
    return outside
