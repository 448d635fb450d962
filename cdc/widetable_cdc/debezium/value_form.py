"""How Debezium writes the values of a column, and the type that a table has for them.

    Connect                              in JSON             form                     column
    int64                                5                   PLAIN                    BIGINT
    io.debezium.time.Date                20455               DAYS                     DATE
    io.debezium.time.MicroTimestamp      1767323045678901    TIMESTAMP, 6 digits      TIMESTAMP(6)
    Decimal, scale 2, precision 10       "BM4="              DECIMAL, scale 2         DECIMAL(10, 2)

Debezium's documentation, "Data type mappings" of the PostgreSQL and MySQL connectors; Kafka Connect's JsonConverter. A
decimal whose precision is not given or above 38, a time of day with finer digits than milliseconds, and what has no
type of its own in a table becomes STRING: no digit is lost.

Without a schema the form follows from the column that the table has (`assumed_form`): how many digits of the second a
number counts is taken from the column, as `time.precision.mode` = adaptive does. In: Connect types, Arrow types. Out:
forms. Pure. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import pyarrow as pa

from widetable_cdc.debezium.connect_schema import ConnectType

MAX_DIGITS: Final = 38
_UNITS: Final = {3: "ms", 6: "us", 9: "ns"}
_DIGITS: Final = {"s": 3, "ms": 3, "us": 6, "ns": 9}


class Encoding(Enum):
    """How a value is written in JSON. Each of them may be null."""

    PLAIN = auto()  # a number, a text, true or false
    BASE64 = auto()  # bytes
    DECIMAL = auto()  # bytes of the unscaled number, big-endian, in base64; or a number
    VARIABLE_DECIMAL = auto()  # {"scale": .., "value": as DECIMAL}
    DAYS = auto()  # since 1970-01-01
    TIME = auto()  # units since midnight
    TIMESTAMP = auto()  # units since 1970-01-01 00:00
    ZONED = auto()  # ISO 8601 with an offset
    BITS = auto()  # bytes in base64, the lowest first
    JSON = auto()  # any value, kept as its text
    ARRAY = auto()


@dataclass(frozen=True)
class ValueForm:
    """How the values of a column are written. type: of the column in the table. digits: of the second, which a unit
    of TIME and TIMESTAMP counts. scale: of DECIMAL. length: of BITS. element: of ARRAY.
    """

    encoding: Encoding
    type: pa.DataType
    digits: int = 0
    scale: int = 0
    length: int = 0
    element: ValueForm | None = None


_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(),
}


def value_form(type: ConnectType) -> ValueForm:
    """Return the form of values of a Connect type."""
    make = _NAMED.get(type.name or "")
    if make is not None:
        return make(type)
    if type.kind in _PLAIN:
        return ValueForm(Encoding.PLAIN, _PLAIN[type.kind])
    if type.kind == "bytes":
        return ValueForm(Encoding.BASE64, pa.binary())
    if type.kind == "array" and type.element is not None:
        element = value_form(type.element)
        return ValueForm(Encoding.ARRAY, pa.list_(element.type), element=element)
    return ValueForm(Encoding.JSON, pa.string())


def _decimal(type: ConnectType) -> ValueForm:
    scale, precision = type.scale or 0, type.precision
    fits = precision is not None and precision <= MAX_DIGITS and 0 <= scale <= precision
    column = pa.decimal128(precision, scale) if fits else pa.string()
    return ValueForm(Encoding.DECIMAL, column, scale=scale)


def _bits(type: ConnectType) -> ValueForm:
    return ValueForm(Encoding.BITS, pa.string(), length=type.length or 0)


def _always(form: ValueForm) -> Callable[[ConnectType], ValueForm]:
    return lambda type: form


def _time(digits: int) -> Callable[[ConnectType], ValueForm]:
    # A column of TIME has milliseconds.
    type = pa.time32("ms") if digits == _DIGITS["ms"] else pa.string()
    return _always(ValueForm(Encoding.TIME, type, digits=digits))


def _timestamp(digits: int) -> Callable[[ConnectType], ValueForm]:
    return _always(ValueForm(Encoding.TIMESTAMP, pa.timestamp(_UNITS[digits]), digits=digits))


_NAMED: Final = {
    "io.debezium.time.Date": _always(ValueForm(Encoding.DAYS, pa.date32())),
    "org.apache.kafka.connect.data.Date": _always(ValueForm(Encoding.DAYS, pa.date32())),
    "io.debezium.time.Time": _time(3),
    "org.apache.kafka.connect.data.Time": _time(3),
    "io.debezium.time.MicroTime": _time(6),
    "io.debezium.time.NanoTime": _time(9),
    "io.debezium.time.Timestamp": _timestamp(3),
    "org.apache.kafka.connect.data.Timestamp": _timestamp(3),
    "io.debezium.time.MicroTimestamp": _timestamp(6),
    "io.debezium.time.NanoTimestamp": _timestamp(9),
    "io.debezium.time.ZonedTimestamp": _always(
        ValueForm(Encoding.ZONED, pa.timestamp("us", "UTC"))
    ),
    "org.apache.kafka.connect.data.Decimal": _decimal,
    "io.debezium.data.VariableScaleDecimal": _always(
        ValueForm(Encoding.VARIABLE_DECIMAL, pa.string())
    ),
    "io.debezium.data.Bits": _bits,
}


def assumed_form(type: pa.DataType, decimals: str) -> ValueForm:
    """Return the form of values that a column of this Arrow type has, for records without a schema.

    decimals: what Debezium's `decimal.handling.mode` says, precise, string or double.
    """
    if pa.types.is_list(type):
        return ValueForm(Encoding.ARRAY, type, element=assumed_form(type.value_type, decimals))
    if pa.types.is_decimal(type) and decimals == "precise":
        return ValueForm(Encoding.DECIMAL, type, scale=type.scale)
    if pa.types.is_timestamp(type):
        return ValueForm(Encoding.TIMESTAMP, type, digits=_DIGITS[type.unit])
    if pa.types.is_time(type):
        return ValueForm(Encoding.TIME, type, digits=_DIGITS[type.unit])
    if pa.types.is_date(type):
        return ValueForm(Encoding.DAYS, type)
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return ValueForm(Encoding.BASE64, type)
    return ValueForm(Encoding.PLAIN, type)
