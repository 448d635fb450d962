"""The functions of computed columns, with the meaning that Paimon's have. Pure.

    year, month, day, hour, minute, second (moment [, digits])      INT
    date_format (moment, 'pattern' [, digits])                      STRING (`date_pattern.py`)
    substring (text, begin [, end])                                 STRING; from 0, without the end
    truncate (number or text, width)                                type of the argument
    CAST (value AS type)                                            to types that hold each value
    upper, lower, trim (text)                                       STRING
    now ()                                                          TIMESTAMP_LTZ(3), when the row is written

A moment is a DATE, a TIMESTAMP, a TIMESTAMP_LTZ (in UTC), or a whole number: seconds since 1970, or with `digits` 3, 6
and 9 parts of them. Where Paimon's job fails, at a text that is shorter than `begin`, `end` or `width`, what is there
is taken. Raises InvalidError for arguments that a function does not take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable import InvalidError
from widetable_cdc.columns.date_pattern import DatePattern
from widetable_cdc.columns.expression import CAST, Call, ColumnOf, Constant, Expression
from widetable_cdc.columns.typed_expression import (
    ColumnKind,
    SourceRows,
    TypedExpression,
    column_expression,
    constant_expression,
)

_STRING: Final = ColumnKind("STRING", pa.large_string())
_INT: Final = ColumnKind("INT", pa.int32())
_UNITS: Final = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_LONG_DIGITS: Final = 18
_PLAIN_DIGITS: Final = 6
# What Java's String.trim leaves out.
_BLANKS: Final = "".join(map(chr, range(33)))
_FIELDS: Final = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+), (\d+)\)")
_INTEGERS: Final = {
    "SMALLINT": (pa.int16(), 5),
    "INT": (pa.int32(), 10),
    "BIGINT": (pa.int64(), 19),
}


def typed_expression(expression: Expression, kinds: Mapping[str, ColumnKind]) -> TypedExpression:
    """Return an expression with its type. kinds: of the columns of the source."""
    if isinstance(expression, ColumnOf):
        return column_expression(expression, kinds)
    if isinstance(expression, Constant):
        return constant_expression(expression)
    make = _FUNCTIONS.get(expression.function)
    if make is None:
        raise InvalidError(
            f"function {expression.function!r}",
            found="a function that computed columns do not have",
            expected=f"one of {', '.join(_FUNCTIONS)}",
            action="Correct the expression, or compute the column at the source.",
        )
    first = expression.arguments[:1]
    value = typed_expression(first[0], kinds) if first else None
    constants = [each.value for each in expression.arguments[1:] if isinstance(each, Constant)]
    if len(constants) < len(expression.arguments) - 1:
        raise _refused(expression, "an argument behind the first that is no constant")
    return make(expression, value, constants)


def _field(call: Call, value: TypedExpression | None, rest: Sequence[Any]) -> TypedExpression:
    moments = _moments(call, value, rest, 0)
    field = _FIELDS[call.function]
    return moments.then(_INT, lambda values: field(values).cast(pa.int32()))


def _date_format(call: Call, value: TypedExpression | None, rest: Sequence[Any]) -> TypedExpression:
    if not rest or not isinstance(rest[0], str):
        raise _refused(call, "no pattern")
    pattern = DatePattern(rest[0])
    return _moments(call, value, rest, 1).then(_STRING, pattern.texts)


def _moments(
    call: Call, value: TypedExpression | None, rest: Sequence[Any], taken: int
) -> TypedExpression:
    """Return the first argument as timestamps without a zone. taken: how many of the constants are of the function."""
    if value is None or len(rest) > taken + 1:
        raise _refused(call, f"{len(call.arguments)} arguments")
    arrow, digits = value.kind.arrow, rest[taken] if len(rest) > taken else None
    if pa.types.is_integer(arrow):
        unit = _UNITS.get(0 if digits is None else digits)
        if unit is None:
            raise _refused(call, f"the digits {digits!r}, which are none of 0, 3, 6 and 9")
        kind = pa.timestamp(unit)
        return value.then(_STRING, lambda values: values.cast(pa.int64()).cast(kind))
    if digits is not None:
        raise _refused(call, "digits for a value that is no whole number")
    if pa.types.is_date(arrow):
        return value.then(_STRING, lambda values: values.cast(pa.timestamp("us")))
    if pa.types.is_timestamp(arrow):
        return value.then(_STRING, lambda values: values.cast(pa.timestamp(arrow.unit)))
    raise _refused(call, f"an argument of the type {value.kind.target}")


def _substring(call: Call, value: TypedExpression | None, rest: Sequence[Any]) -> TypedExpression:
    texts = _texts(call, value)
    bounds = [each for each in rest if isinstance(each, int) and not isinstance(each, bool)]
    if len(bounds) != len(rest) or not 1 <= len(bounds) <= 2:
        raise _refused(call, "bounds that are not one or two whole numbers")
    begin, end = bounds[0], bounds[1] if len(bounds) > 1 else None
    if begin < 0 or (end is not None and end <= begin):
        raise _refused(call, "bounds that are negative or not ascending")
    return texts.then(_STRING, lambda values: pc.utf8_slice_codeunits(values, begin, end))


def _truncate(call: Call, value: TypedExpression | None, rest: Sequence[Any]) -> TypedExpression:
    if value is None or len(rest) != 1 or not isinstance(rest[0], int) or rest[0] < 1:
        raise _refused(call, "a width that is not one whole number above 0")
    width, kind = rest[0], value.kind
    if kind.target == "STRING":
        return value.then(kind, lambda values: pc.utf8_slice_codeunits(values, 0, width))
    if kind.target in _INTEGERS:
        return value.then(kind, lambda values: _floored(values, width))
    match = _DECIMAL.fullmatch(kind.target)
    if match is not None and int(match[1]) <= _LONG_DIGITS:
        return value.then(kind, partial(_floored_decimals, width=width))
    raise _refused(call, f"an argument of the type {kind.target}")


def _floored(values: pa.Array, width: int) -> pa.Array:
    """Return whole numbers less their rest, which is never negative. As in Java, what is too small wraps around."""
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    rests = np.mod(numbers.astype(np.int64), np.int64(width))
    floored = (numbers.astype(np.int64) - rests).astype(numbers.dtype)
    return pa.array(floored, values.type, mask=np.asarray(values.is_null()))


def _floored_decimals(values: pa.Array, width: int) -> pa.Array:
    """Return decimals less the rest of their digits, as whole numbers, by the width."""
    kind = values.type
    digits = pa.decimal128(kind.precision, 0)
    if values.offset:
        values = pa.concat_arrays([values])
    units = pa.Array.from_buffers(digits, len(values), values.buffers(), values.null_count)
    floored = _floored(units.cast(pa.int64()), width)
    wide = floored.cast(pa.decimal128(19, 0))
    shifted = pa.Array.from_buffers(
        pa.decimal128(19, kind.scale), len(wide), wide.buffers(), wide.null_count
    )
    return shifted.cast(kind)


def _cast(call: Call, value: TypedExpression | None, rest: Sequence[Any]) -> TypedExpression:
    assert value is not None, "the parser gives a cast two arguments"
    target = str(rest[0]).upper()
    source, arrow = value.kind.target, value.kind.arrow
    if target == source:
        return value
    if target == "STRING" and _is_printed(source):
        return value.then(_STRING, lambda values: values.cast(pa.large_string()), keeps_apart=True)
    if target == "DATE" and pa.types.is_timestamp(arrow):
        return value.then(ColumnKind("DATE", pa.date32()), _days)
    if (source, target) == ("FLOAT", "DOUBLE"):
        kind = ColumnKind("DOUBLE", pa.float64())
        return value.then(kind, lambda values: values.cast(pa.float64()), keeps_apart=True)
    digits, wanted = _digits_of(source), _digits_of(target)
    if digits is not None and wanted is not None:
        is_wider = wanted[0] >= digits[0] and wanted[1] >= digits[1]
        if is_wider and (target not in _INTEGERS or source in _INTEGERS):
            made = _number_kind(target)
            return value.then(made, lambda values: values.cast(made.arrow), keeps_apart=True)
    raise _refused(call, f"a cast of {source} to {target}, which does not hold each value as it is")


def _days(moments: pa.Array) -> pa.Array:
    plain = moments.cast(pa.timestamp(moments.type.unit))
    return pc.floor_temporal(plain, unit="day").cast(pa.date32())


def _is_printed(source: str) -> bool:
    """Whether values become the texts that PostgreSQL has for them; Arrow writes small decimals with an exponent."""
    digits = _digits_of(source)
    return source in ("BOOLEAN", "DATE") or (digits is not None and digits[1] <= _PLAIN_DIGITS)


def _digits_of(target: str) -> tuple[int, int] | None:
    """Return how many digits a number has before and behind its point; None for other types."""
    if target in _INTEGERS:
        return _INTEGERS[target][1], 0
    match = _DECIMAL.fullmatch(target)
    return (int(match[1]) - int(match[2]), int(match[2])) if match is not None else None


def _number_kind(target: str) -> ColumnKind:
    if target in _INTEGERS:
        return ColumnKind(target, _INTEGERS[target][0])
    match = _DECIMAL.fullmatch(target)
    assert match is not None, "it has digits"
    return ColumnKind(target, pa.decimal128(int(match[1]), int(match[2])))


def _changed_text(
    change: Callable[[pa.Array], pa.Array],
    call: Call,
    value: TypedExpression | None,
    rest: Sequence[Any],
) -> TypedExpression:
    if rest:
        raise _refused(call, f"{len(call.arguments)} arguments")
    return _texts(call, value).then(_STRING, change)


def _texts(call: Call, value: TypedExpression | None) -> TypedExpression:
    if value is None or value.kind.target != "STRING":
        there = "nothing" if value is None else f"an argument of the type {value.kind.target}"
        raise _refused(call, there)
    return value


def _now(call: Call, value: TypedExpression | None, rest: Sequence[Any]) -> TypedExpression:
    if call.arguments:
        raise _refused(call, f"{len(call.arguments)} arguments")
    arrow = pa.timestamp("ms", "UTC")

    def evaluate(rows: SourceRows) -> pa.Array:
        return pa.repeat(pa.scalar(rows.now_millis, arrow), rows.count)

    return TypedExpression(ColumnKind("TIMESTAMP_LTZ(3)", arrow), evaluate, is_stable=False)


def _refused(call: Call, problem: str) -> InvalidError:
    return InvalidError(
        f"function {call.function!r} of a computed column",
        found=problem,
        expected=_SAID.get(call.function, f"{call.function}(text)"),
        action="Correct the expression.",
    )


_Make = Callable[[Call, TypedExpression | None, Sequence[Any]], TypedExpression]
_FUNCTIONS: Final[dict[str, _Make]] = {
    **dict.fromkeys(_FIELDS, _field),
    "date_format": _date_format,
    "substring": _substring,
    "truncate": _truncate,
    CAST: _cast,
    "now": _now,
    "upper": partial(_changed_text, pc.utf8_upper),
    "lower": partial(_changed_text, pc.utf8_lower),
    "trim": partial(_changed_text, partial(pc.utf8_trim, characters=_BLANKS)),
}
_MOMENT: Final = "DATE, TIMESTAMP, TIMESTAMP_LTZ or whole number"
_SAID: Final = {
    **{name: f"{name}({_MOMENT} [, 0, 3, 6 or 9])" for name in _FIELDS},
    "date_format": f"date_format({_MOMENT}, 'pattern' [, 0, 3, 6 or 9])",
    "substring": "substring(text, begin [, end]) with 0 <= begin < end",
    "truncate": "truncate(text, whole number, or DECIMAL of at most 18 digits; width above 0)",
    CAST: "CAST(value AS STRING or a wider number), CAST(moment AS DATE)",
    "now": "now()",
}
