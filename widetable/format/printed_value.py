"""Print values: on the command line, in findings of audits, in messages. One rule, for every bit pattern.

    BOOLEAN, integers                  JSON values
    FLOAT, DOUBLE                      a number; NaN, Infinity and -Infinity as text
    DECIMAL                            text with all its digits: -1.50
    CHAR, VARCHAR                      text; bytes that are no UTF-8 become U+FFFD, as in partition directories
    BINARY, VARBINARY                  hex digits
    DATE                               2024-02-29; after 9999 with a sign, before 0 with a minus: +12024-02-29
    TIME                               10:30:00, and the fraction in 3, 6 or 9 digits where there is one
    TIMESTAMP                          2024-02-29 10:30:00, with a fraction like TIME
    TIMESTAMP_LTZ                      a TIMESTAMP followed by +00:00
    ARRAY, MAP, ROW                    a list, a list of [key, value], an object
    null                               null

In: Arrow columns of the table's types. Out: values for JSON. Python's own date, datetime and str do not hold all values
of columns, so they are not used. Raises nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from widetable.format.civil_date import civil, signed_year

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_SECONDS: Final = 86_400


def printed_rows(rows: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any]]:
    """Yield each row as a dictionary from column to value."""
    names = rows.schema.names
    columns = [printed(column) for column in rows.columns]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def printed(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the printed values of a column."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in printed(chunk)]
    rule = next((rule for test, rule in _RULES if test(column.type)), _plain_values)
    return rule(column)


def _plain_values(column: pa.Array) -> list[Any]:
    return list(column.to_pylist())


def _each(column: pa.Array, text: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else text(value) for value in column.to_pylist()]


def _floats(column: pa.Array) -> list[Any]:
    return _each(column, lambda value: value if math.isfinite(value) else _not_finite(value))


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimals(column: pa.Array) -> list[Any]:
    return _each(column, lambda value: format(value, "f"))


def _texts(column: pa.Array) -> list[Any]:
    return _each(
        column.cast(pa.string()).view(pa.binary()), lambda value: value.decode(errors="replace")
    )


def _binaries(column: pa.Array) -> list[Any]:
    return _each(column, bytes.hex)


def _dates(column: pa.Array) -> list[Any]:
    return _each(column.view(pa.int32()), _date)


def _date(day: int) -> str:
    year, month, day_of_month = civil(day)
    return f"{signed_year(year)}-{month:02d}-{day_of_month:02d}"


def _times(column: pa.Array) -> list[Any]:
    per_second = _PER_SECOND[column.type.unit]
    stored = pa.int32() if column.type.bit_width == 32 else pa.int64()

    def text(value: int) -> str:
        second, fraction = divmod(value, per_second)
        return _clock(second, fraction, per_second)

    return _each(column.view(stored), text)


def _timestamps(column: pa.Array) -> list[Any]:
    per_second, zone = _PER_SECOND[column.type.unit], "+00:00" if column.type.tz else ""

    def text(value: int) -> str:
        seconds, fraction = divmod(value, per_second)
        day, second = divmod(seconds, _DAY_SECONDS)
        return f"{_date(day)} {_clock(second, fraction, per_second)}{zone}"

    return _each(column.view(pa.int64()), text)


def _clock(second: int, fraction: int, per_second: int) -> str:
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{text}.{fraction:0{len(str(per_second)) - 1}d}" if fraction else text


def _lists(column: pa.Array) -> list[Any]:
    return _split_lists(column, lambda start, length: printed(column.values.slice(start, length)))


def _maps(column: pa.Array) -> list[Any]:
    def pairs(start: int, length: int) -> list[Any]:
        keys, values = (part.slice(start, length) for part in (column.keys, column.items))
        return [list(pair) for pair in zip(printed(keys), printed(values), strict=True)]

    return _split_lists(column, pairs)


def _split_lists(column: pa.Array, elements: Callable[[int, int], Sequence[Any]]) -> list[Any]:
    """Split the elements of all lists into lists. elements: returns so many elements from a start on."""
    offsets = column.offsets.to_pylist()
    printed_elements = elements(offsets[0], offsets[-1] - offsets[0])
    return [
        list(printed_elements[start - offsets[0] : end - offsets[0]]) if is_valid else None
        for is_valid, (start, end) in zip(
            column.is_valid().to_pylist(), pairwise(offsets), strict=True
        )
    ]


def _structs(column: pa.Array) -> list[Any]:
    names = [field.name for field in column.type]
    parts = zip(*(printed(part) for part in column.flatten()), strict=True)
    return [
        dict(zip(names, values, strict=True)) if is_valid else None
        for is_valid, values in zip(column.is_valid().to_pylist(), parts, strict=True)
    ]


_Rule = Callable[[pa.Array], list[Any]]
_RULES: Final[tuple[tuple[Callable[[pa.DataType], bool], _Rule], ...]] = (
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_string, _texts),
    (pa.types.is_binary, _binaries),
    (pa.types.is_date32, _dates),
    (pa.types.is_time, _times),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_list, _lists),
    (pa.types.is_map, _maps),
    (pa.types.is_struct, _structs),
)
