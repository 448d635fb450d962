"""The text of partition values in directory names.

Source: Paimon `InternalRowPartitionComputer`, `PartitionPathUtils`; format.md section 1. In: the BinaryRow of a
manifest entry; out: (column, text) pairs for `paths.TablePaths.bucket_dir`, which escapes them. No I/O.

    null, or only blanks            option partition.default-name
    BOOLEAN, integers, DECIMAL      true, -5, 1.50
    CHAR, VARCHAR                   as it is
    DATE                            days since 1970-01-01; 2024-02-29 with partition.legacy-name=false
    TIMESTAMP, TIMESTAMP_LTZ        2024-02-29T10:30, seconds and fraction only where not zero;
                                    2024-02-29 10:30:00.000 with partition.legacy-name=false (not for TIMESTAMP_LTZ)
    TIME                            milliseconds of the day (only with partition.legacy-name=true)

Raises UnsupportedError for the other types: their text depends on the Java version or the session's time zone.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any, Final

from widetable import options as opt
from widetable.errors import UnsupportedError
from widetable.format.binary_row import decode_row
from widetable.schema import TableSchema
from widetable.types import DataField, DataType, timestamp_unit

_EPOCH_DAY: Final = datetime.date(1970, 1, 1)
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_NANOS_PER: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
# Java's Character.isWhitespace: no-break spaces are not blank.
_BLANK: Final = re.compile(
    "[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*"
)
_INTEGERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def partition_texts(partition: bytes, schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """(column, directory text) of every partition column, in partition key order; not escaped.

    partition: BinaryRow with its arity in front, as `_PARTITION` of a manifest entry.
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


def _text(field: DataField, value: Any, *, legacy: bool) -> str:
    writers = _LEGACY if legacy else _CAST
    writer = writers.get(field.type.root)
    if writer is None:
        raise UnsupportedError(
            f"partition column {field.name!r}",
            found=f"the type {field.type} with partition.legacy-name={str(legacy).lower()}",
            expected=f"one of {', '.join(writers)}",
            action="Partition the table by a column of another type.",
        )
    return "" if value is None else writer(value, field.type)


def _plain(value: Any, _: DataType) -> str:
    return str(value)


def _boolean(value: bool, _: DataType) -> str:
    return "true" if value else "false"


def _day_number(value: datetime.date, _: DataType) -> str:
    return str((value - _EPOCH_DAY).days)


def _iso_date(value: datetime.date, _: DataType) -> str:
    return value.isoformat()


def _split(value: int, type_: DataType) -> tuple[datetime.datetime, int]:
    """The whole second, and the nanoseconds after it."""
    nanos = value * _NANOS_PER[timestamp_unit(type_.precision or 0)]
    seconds, fraction = divmod(nanos, 1_000_000_000)
    return _EPOCH + datetime.timedelta(seconds=seconds), fraction


def _local_date_time(value: int, type_: DataType) -> str:
    """As Java's LocalDateTime prints: the fraction in groups of three digits, zero seconds left out."""
    second, fraction = _split(value, type_)
    text = second.strftime(f"{second.year:04d}-%m-%dT%H:%M")
    if not second.second and not fraction:
        return text
    text += f":{second.second:02d}"
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}" if digits else text


def _sql_timestamp(value: int, type_: DataType) -> str:
    """As a cast to STRING prints: at least as many digits of the second as the type declares."""
    second, fraction = _split(value, type_)
    digits = f"{fraction:09d}"
    while len(digits) > (type_.precision or 0) and digits.endswith("0"):
        digits = digits[:-1]
    text = second.strftime(f"{second.year:04d}-%m-%d %H:%M:%S")
    return f"{text}.{digits}" if digits else text


_Writer = Callable[[Any, DataType], str]
_BOTH: Final[dict[str, _Writer]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(_INTEGERS, _plain),
    "DECIMAL": _plain,
    "CHAR": _plain,
    "VARCHAR": _plain,
}
_LEGACY: Final[dict[str, _Writer]] = {
    **_BOTH,
    "DATE": _day_number,
    "TIME": _plain,
    "TIMESTAMP": _local_date_time,
    "TIMESTAMP_LTZ": _local_date_time,
}
_CAST: Final[dict[str, _Writer]] = {**_BOTH, "DATE": _iso_date, "TIMESTAMP": _sql_timestamp}
