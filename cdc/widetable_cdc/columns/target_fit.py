"""Whether a table that is there already can be the target of a table of the source. Pure.

The target, its key and the Arrow types of the columns that the job writes go in. InvalidError names the first thing
that does not fit: another key, a column that is not there, a type that does not hold the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from widetable import InvalidError, Table
from widetable.connector import counted
from widetable_cdc.source.lsn import lsn_text

_WAY_ON: Final = "Drop the table, or give the job another one: `target` in the section of the table, or a prefix."
_UNITS: Final = ("s", "ms", "us", "ns")


def check_position(target: str, position: int, highest: int) -> None:
    """Refuse a target that has changes of a server whose log went further: it would skip those of this one."""
    if position > highest:
        raise InvalidError(
            f"table {target}",
            found=f"changes of this job up to {lsn_text(position)}, from another server",
            expected=f"none behind {lsn_text(highest)}, where the log of this server begins",
            action="Drop the table, or give the job another name or another target.",
        )


def check_fit(
    target: Table, name: str, key: Sequence[str], types: Mapping[str, pa.DataType]
) -> None:
    """Raise unless the target has this key, and columns that hold these types. name: of the target."""
    there = {field.name: field.type for field in target.arrow_schema}
    subject = f"table {name}, which was there before the job"
    if sorted(target.schema.primary_keys) != sorted(key):
        raise _misfit(subject, f"the key {_listed(target.schema.primary_keys)}", _listed(key))
    lacking = [column for column in types if column not in there]
    if lacking:
        raise _misfit(
            subject,
            f"no {_listed(lacking)}",
            f"{counted(len(types), 'column')} of the source: {_listed(list(types))}",
        )
    for column, wanted in types.items():
        if not holds(there[column], wanted):
            raise _misfit(
                subject, f"the type {there[column]} of the column {column!r}", str(wanted)
            )


def holds(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column of the one type holds every value of the other."""
    if there.equals(wanted):
        return True
    for is_kind, fits in _FAMILIES:
        if is_kind(there) and is_kind(wanted):
            return bool(fits(there, wanted))
    return False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _always(there: pa.DataType, wanted: pa.DataType) -> bool:
    return True


def _is_as_wide(there: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(there.bit_width >= wanted.bit_width)


def _has_digits(there: pa.DataType, wanted: pa.DataType) -> bool:
    whole = there.precision - there.scale >= wanted.precision - wanted.scale
    return bool(whole and there.scale >= wanted.scale)


def _is_as_fine(there: pa.DataType, wanted: pa.DataType) -> bool:
    is_zoned = (there.tz is None) == (wanted.tz is None)
    return is_zoned and _UNITS.index(there.unit) >= _UNITS.index(wanted.unit)


def _holds_elements(there: pa.DataType, wanted: pa.DataType) -> bool:
    return holds(there.value_type, wanted.value_type)


_FAMILIES: Final = (
    (_is_text, _always),
    (_is_bytes, _always),
    (pa.types.is_integer, _is_as_wide),
    (pa.types.is_floating, _is_as_wide),
    (pa.types.is_decimal, _has_digits),
    (pa.types.is_time, _always),
    (pa.types.is_timestamp, _is_as_fine),
    (_is_list, _holds_elements),
)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _misfit(subject: str, what: str, expected: str) -> InvalidError:
    return InvalidError(subject, found=what, expected=expected, action=_WAY_ON)
