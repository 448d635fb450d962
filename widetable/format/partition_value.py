"""Format partition values as the texts of directory names.

Source: Paimon `InternalRowPartitionComputer`, `PartitionPathUtils`; format.md section 1. In: the BinaryRow of a
manifest entry; out: (column, text) pairs for `paths.TablePaths.bucket_dir`, which escapes them. No I/O.

    null, or only blanks            option partition.default-name
    BOOLEAN, integers, DECIMAL      true, -5, 1.50
    CHAR, VARCHAR                   the text itself
    DATE                            days since 1970-01-01; 2024-02-29 with partition.legacy-name=false
    TIMESTAMP, TIMESTAMP_LTZ        2024-02-29T10:30, seconds and fraction only where not zero; +12024-.. after 9999;
                                    2024-02-29 10:30:00.000 with partition.legacy-name=false (not for TIMESTAMP_LTZ)
    TIME                            milliseconds of the day (only with partition.legacy-name=true)

Bytes of a text that are no UTF-8 become U+FFFD, as in Java. Raises UnsupportedError for the other types, whose text
depends on the Java version or the session's time zone, and, with partition.legacy-name=false, for years that do not
have four digits: Java cuts them off.

    TIMESTAMP(3)    2024-02-29T10:30           2024-02-29 10:30:00.000       legacy, not legacy
                    2024-02-29T10:30:00.123    2024-02-29 10:30:00.123
    TIMESTAMP(6)    2024-02-29T10:30:00.120    2024-02-29 10:30:00.120000
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from widetable.errors import UnsupportedError
from widetable.format.binary_row import decode_row
from widetable.format.civil_date import civil, signed_year
from widetable.format.plain_value import TEXTS
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType, timestamp_unit

_NANOS_PER: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_SECONDS: Final = 86_400
_FOUR_DIGITS: Final = range(10_000)
# Java's Character.isWhitespace: no-break spaces are not blank.
_BLANK: Final = re.compile(
    "[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*"
)
_INTEGERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def partition_texts(partition: bytes, schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """Return (column, directory text) for every partition column, in partition key order; not escaped.

    partition: BinaryRow with its arity, as `_PARTITION` of a manifest entry.
    """
    if not schema.partition_keys:
        return ()
    fields = [schema.field(name) for name in schema.partition_keys]
    values = decode_row(partition, [field.type for field in fields])
    default_name = schema.typed_options.get(opt.PARTITION_DEFAULT_NAME)
    legacy = schema.typed_options.get(opt.PARTITION_LEGACY_NAME)
    texts = [
        _text(field, value, legacy=legacy) for field, value in zip(fields, values, strict=True)
    ]
    return tuple(
        (field.name, default_name if _BLANK.fullmatch(text) else text)
        for field, text in zip(fields, texts, strict=True)
    )


@once_per_object
def readable(schema: TableSchema) -> TableSchema:
    """Return the schema with partition texts of the newer form, whatever the form of the table's directories."""
    return replace(schema, options={**schema.options, opt.PARTITION_LEGACY_NAME.key: "false"})


def shown_texts(partition: bytes, schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """Return (column, text) in readable form: a date as `2026-11-27`, even where its directory is named by a number.
    Values without such a text have the text of their directory.
    """
    try:
        return partition_texts(partition, readable(schema))
    except UnsupportedError:
        return partition_texts(partition, schema)


def check_partition_types(schema: TableSchema) -> None:
    """Refuse a partition column whose type has no text, before any value is written."""
    for name in schema.partition_keys:
        _writer(schema.field(name), legacy=schema.typed_options.get(opt.PARTITION_LEGACY_NAME))


def _text(field: DataField, value: Any, *, legacy: bool) -> str:
    writer = _writer(field, legacy=legacy)
    return "" if value is None else writer(value, field.type)


def _writer(field: DataField, *, legacy: bool) -> _Writer:
    writers = _LEGACY if legacy else _CAST
    writer = writers.get(field.type.root)
    if writer is None:
        raise UnsupportedError(
            f"partition column {field.name!r}",
            found=f"the type {field.type} with partition.legacy-name={str(legacy).lower()}",
            expected=f"one of {', '.join(writers)}",
            action="Partition the table by a column of another type.",
        )
    return writer


def _number(value: int, _: DataType) -> str:
    return str(value)


def _boolean(value: bool, _: DataType) -> str:
    return "true" if value else "false"


def _string(value: bytes, _: DataType) -> str:
    return value.decode(errors="replace")


def _decimal(unscaled: int, kind: DataType) -> str:
    digits = tuple(map(int, str(abs(unscaled))))
    return format(Decimal((int(unscaled < 0), digits, -(kind.scale or 0))), "f")


def _iso_date(day: int, kind: DataType) -> str:
    year, month, day_of_month = civil(day)
    return f"{_four_digits(year, kind)}-{month:02d}-{day_of_month:02d}"


def _four_digits(year: int, kind: DataType) -> str:
    if year not in _FOUR_DIGITS:
        raise UnsupportedError(
            f"partition value of the type {kind}",
            found=f"the year {year} with partition.legacy-name=false",
            expected="a year from 0 to 9999",
            action="Leave such rows out, or make the table with partition.legacy-name=true.",
        )
    return f"{year:04d}"


def _split(value: int, kind: DataType) -> tuple[int, int, int]:
    """Return the day, the second of the day, and the nanoseconds after it. Java keeps 32 bits of the day."""
    nanos = value * _NANOS_PER[timestamp_unit(kind.precision or 0)]
    seconds, fraction = divmod(nanos, 1_000_000_000)
    day, second = divmod(seconds, _DAY_SECONDS)
    return (day + (1 << 31)) % (1 << 32) - (1 << 31), second, fraction


def _local_date_time(value: int, kind: DataType) -> str:
    """Print like Java's LocalDateTime: the fraction in groups of three digits, zero seconds left out."""
    day, second, fraction = _split(value, kind)
    year, month, day_of_month = civil(day)
    text = f"{signed_year(year)}-{month:02d}-{day_of_month:02d}T{second // 3600:02d}:{second // 60 % 60:02d}"
    if not second % 60 and not fraction:
        return text
    text += f":{second % 60:02d}"
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}" if digits else text


def _sql_timestamp(value: int, kind: DataType) -> str:
    """Print like a cast to STRING: at least as many digits of the second as the type declares."""
    day, second, fraction = _split(value, kind)
    digits = f"{fraction:09d}"
    while len(digits) > (kind.precision or 0) and digits.endswith("0"):
        digits = digits[:-1]
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    text = f"{_iso_date(day, kind)} {clock}"
    return f"{text}.{digits}" if digits else text


_Writer = Callable[[Any, DataType], str]
_BOTH: Final[dict[str, _Writer]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(_INTEGERS, _number),
    "DECIMAL": _decimal,
    **dict.fromkeys(TEXTS, _string),
}
_LEGACY: Final[dict[str, _Writer]] = {
    **_BOTH,
    "DATE": _number,
    "TIME": _number,
    "TIMESTAMP": _local_date_time,
    "TIMESTAMP_LTZ": _local_date_time,
}
_CAST: Final[dict[str, _Writer]] = {**_BOTH, "DATE": _iso_date, "TIMESTAMP": _sql_timestamp}
