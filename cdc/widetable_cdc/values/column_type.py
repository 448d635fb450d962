"""The type of the target's column for a type of PostgreSQL, and how its values are read.

In: a SourceType, with the user's wishes for the column. Out: a TargetType. Raises InvalidError for a wish that is no
DECIMAL. Pure.

    bool, int2, int4, int8, float4, float8      BOOLEAN, SMALLINT, INT, BIGINT, FLOAT, DOUBLE
    text, varchar, json, jsonb, uuid, xml       STRING
    enums, interval (ISO 8601)                  STRING
    bpchar                                      STRING, without its padding
    numeric(p, s), 0 <= s <= p <= 38            DECIMAL(p, s)
    other numeric                               STRING, exact; or the DECIMAL that is wished for, rounded to its scale
    date                                        DATE
    time(n), n <= 3                             TIME(n)
    other time                                  STRING, exact
    timestamp(n), timestamptz(n)                TIMESTAMP(n), TIMESTAMP_LTZ(n); 6 without n
    bytea                                       BYTES
    arrays                                      ARRAY of the type of their elements
    all others                                  STRING, as the server prints them, with a note

Paimon keeps milliseconds in a TIME of any n, so a type with microseconds is a STRING, as Debezium's times of
microseconds are (`debezium/value_form.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from widetable import InvalidError
from widetable_cdc.values import value_reading as reading
from widetable_cdc.values.source_type import SourceType
from widetable_cdc.values.text_cast import Cast
from widetable_cdc.values.value_reading import ValueReading

_MOST_DIGITS: Final = 38
# Arrays of boxes have another delimiter than all others.
_BOX: Final = 603
_NUMERIC: Final = 1700
_TIME: Final = 1083
_MILLIS_DIGITS: Final = 3
# Types whose target depends on nothing but the type: oid -> target and reading.
_PLAIN: Final[dict[int, tuple[str, ValueReading]]] = {
    16: ("BOOLEAN", reading.bool_reading()),
    17: ("BYTES", reading.bytes_reading()),
    20: ("BIGINT", reading.number_reading(pa.int64())),
    21: ("SMALLINT", reading.number_reading(pa.int16())),
    23: ("INT", reading.number_reading(pa.int32())),
    25: ("STRING", reading.text_reading()),
    114: ("STRING", reading.cast_to_text_reading()),  # json
    142: ("STRING", reading.cast_to_text_reading()),  # xml
    700: ("FLOAT", reading.number_reading(pa.float32())),
    701: ("DOUBLE", reading.number_reading(pa.float64())),
    1042: ("STRING", reading.text_reading(is_padded=True)),  # bpchar
    1043: ("STRING", reading.text_reading()),  # varchar
    1082: ("DATE", reading.date_reading()),
    1186: ("STRING", reading.cast_to_text_reading()),  # interval
    2950: ("STRING", reading.cast_to_text_reading()),  # uuid
    3802: ("STRING", reading.cast_to_text_reading()),  # jsonb
}
# oid -> root and zone.
_TIMESTAMPS: Final[dict[int, tuple[str, str | None]]] = {
    1114: ("TIMESTAMP", None),
    1184: ("TIMESTAMP_LTZ", "UTC"),
}


@dataclass(frozen=True)
class TargetType:
    """The type of a column. target: its text, such as DECIMAL(10, 2) or ARRAY<INT>. note: what a user should know of
    the type, a sentence; None for nothing. arrow: the type of values. is_usual: whether it is the type without a wish.
    """

    source: SourceType
    target: str
    note: str | None
    reading: ValueReading
    is_usual: bool = True

    @property
    def arrow(self) -> pa.DataType:
        return self.reading.arrow

    def select(self, quoted_column: str) -> str:
        """Return the SQL expression by which ADBC copies the column exactly. quoted_column: quoted for SQL."""
        return self.reading.template.format(quoted_column)

    def from_texts(self, texts: pa.Array) -> Cast:
        """Return the values of texts of the log, a large_string array."""
        return self.reading.texts(texts)

    def from_copied(self, values: pa.Array) -> Cast:
        """Return the values of what ADBC gives for `select`."""
        return self.reading.copies(values)


def column_type(
    source: SourceType, *, decimal: str | None = None, as_string: bool = False
) -> TargetType:
    """Return the type of the target's column.

    decimal: precision and scale such as "38,18", for numeric that no DECIMAL holds in general. as_string: STRING,
    whatever the type is; then no value is bad. Raises InvalidError for a `decimal` that is none.
    """
    wish = None if decimal is None else _digits_of(decimal)
    if as_string:
        return TargetType(source, "STRING", None, _string_reading(source))
    if source.element is not None:
        return _array_type(source, source.element, decimal)
    if source.kind == "e":
        return TargetType(source, "STRING", None, reading.cast_to_text_reading())
    if source.kind != "b":
        return _printed(source)
    if source.oid in _PLAIN:
        return TargetType(source, *_with_note(*_PLAIN[source.oid]))
    if source.oid == _NUMERIC:
        return _numeric_type(source, wish)
    digits = source.typmod if 0 <= source.typmod <= 6 else 6
    if source.oid == _TIME:
        return _time_type(source, digits)
    if source.oid in _TIMESTAMPS:
        root, zone = _TIMESTAMPS[source.oid]
        return TargetType(
            source, f"{root}({digits})", None, reading.timestamp_reading(digits, zone)
        )
    return _printed(source)


def _time_type(source: SourceType, digits: int) -> TargetType:
    if digits <= _MILLIS_DIGITS:
        return TargetType(source, f"TIME({digits})", None, reading.time_reading())
    note = "A TIME holds milliseconds: the column is STRING, exact; `types` makes it a TIME(3)."
    return TargetType(source, "STRING", note, reading.cast_to_text_reading())


def _with_note(target: str, read: ValueReading) -> tuple[str, None, ValueReading]:
    return target, None, read


def _string_reading(source: SourceType) -> ValueReading:
    target, read = _PLAIN.get(source.oid, ("", reading.printed_reading()))
    is_text = target == "STRING" and source.kind == "b" and source.element is None
    return read if is_text else reading.printed_reading()


def _printed(source: SourceType) -> TargetType:
    note = f"Tables have no type for {source.name}: the column is STRING, as the server prints it."
    return TargetType(source, "STRING", note, reading.printed_reading())


def _array_type(source: SourceType, element: SourceType, decimal: str | None) -> TargetType:
    if element.oid == _BOX or element.element is not None:
        return _printed(source)
    inner = column_type(element, decimal=decimal)
    read = reading.array_reading(inner.reading, inner.target)
    return TargetType(source, f"ARRAY<{inner.target}>", inner.note, read)


def _numeric_type(source: SourceType, wish: tuple[int, int] | None) -> TargetType:
    if source.typmod >= 4:
        precision = (source.typmod - 4) >> 16
        # Eleven bits. A negative scale is a number above all precisions, without its sign.
        scale = (source.typmod - 4) & 0x7FF
        if scale <= precision <= _MOST_DIGITS:
            read = reading.decimal_reading(precision, scale, is_rounded=False)
            return TargetType(source, f"DECIMAL({precision}, {scale})", None, read)
    if wish is not None:
        read = reading.decimal_reading(*wish, is_rounded=True)
        return TargetType(source, f"DECIMAL({wish[0]}, {wish[1]})", None, read)
    note = "No DECIMAL holds all values of this numeric: the column is STRING, exact; `decimal` makes it a DECIMAL."
    return TargetType(source, "STRING", note, reading.cast_to_text_reading())


def _digits_of(decimal: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*", decimal)
    if match is not None and 1 <= int(match[1]) <= _MOST_DIGITS and int(match[2]) <= int(match[1]):
        return int(match[1]), int(match[2])
    raise InvalidError(
        "decimal",
        found=repr(decimal),
        expected="a precision of 1 to 38 and a scale that is not larger, such as '38,18'",
        action="Correct the setting.",
    )
