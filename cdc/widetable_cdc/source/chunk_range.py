"""Ranges of a key column as whole numbers, in SQL and over Arrow columns alike. Pure.

    kind        number of a key                                 Arrow column of the target
    integer     itself                                          int16, int32, int64
    uuid        its upper 64 bits, less 2^63                    texts with 36 letters
    date        days since 1970                                 date32
    timestamp   microseconds since 1970 (UTC with a time zone)  timestamp

A range is [low, high) with open ends. A bound of kind uuid has 64 lower bits of zero, so that the upper ones say on
which side a key lies. A bound of kind date or timestamp lies within the years 1 to 9999: what is outside, `infinity`
too, belongs to the ranges with the open ends. `numbers_of` gives what `predicate` compares, in the server's order.
Other types have no kind, their tables are one range: the order of a text depends on its collation. Raises InvalidError
for a column that is none of the above.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import InvalidError
from widetable.connector import counted
from widetable_cdc.source.sql_name import quoted
from widetable_cdc.values.source_type import SourceType

_TOP: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1)
_DAY_MICROS: Final = 86_400_000_000
_MICROS: Final = timedelta(microseconds=1)
# The digits of a UUID's text whose dashes are left out: its upper 64 bits.
_UPPER_DIGITS: Final = [*range(8), *range(9, 13), *range(14, 18)]
_UUID_LENGTH: Final = 36


class KeyKind(Enum):
    """What the key column holds. The value is its name in the states of chunks."""

    INTEGER = "integer"
    UUID = "uuid"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"


_KINDS: Final = {
    "int2": KeyKind.INTEGER,
    "int4": KeyKind.INTEGER,
    "int8": KeyKind.INTEGER,
    "uuid": KeyKind.UUID,
    "date": KeyKind.DATE,
    "timestamp": KeyKind.TIMESTAMP,
    "timestamptz": KeyKind.TIMESTAMPTZ,
}
_FIRST_DAY: Final = (datetime.min - _EPOCH).days
_LAST_DAY: Final = (datetime.max - _EPOCH).days
# The least and the greatest bound of each kind.
LIMITS: Final = {
    KeyKind.INTEGER: (-_TOP, _TOP - 1),
    KeyKind.UUID: (-_TOP, _TOP - 1),
    KeyKind.DATE: (_FIRST_DAY, _LAST_DAY),
    KeyKind.TIMESTAMP: (_FIRST_DAY * _DAY_MICROS, _LAST_DAY * _DAY_MICROS),
    KeyKind.TIMESTAMPTZ: (_FIRST_DAY * _DAY_MICROS, _LAST_DAY * _DAY_MICROS),
}


@dataclass(frozen=True)
class ChunkRange:
    """Keys from `low` on and below `high`, None for an open end. column: the first column of the key; with kind None
    the range is the whole table.
    """

    column: str = ""
    kind: KeyKind | None = None
    low: int | None = None
    high: int | None = None

    @property
    def predicate(self) -> str:
        """The condition in SQL; `true` for the whole table."""
        if self.kind is None:
            return "true"
        name = quoted(self.column)
        parts = []
        if self.low is not None:
            parts.append(f"{name} >= {_literal(self.kind, self.low)}")
        if self.high is not None:
            parts.append(f"{name} < {_literal(self.kind, self.high)}")
        return " AND ".join(parts) or "true"

    def holds(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which keys lie in the range, by their numbers."""
        mask = np.ones(len(numbers), np.bool_)
        if self.low is not None:
            mask &= numbers >= self.low
        if self.high is not None:
            mask &= numbers < self.high
        return mask


def kind_of(source: SourceType) -> KeyKind | None:
    """Return the kind of a key column; None if its table cannot be cut into ranges."""
    return _KINDS.get(source.name)


def numbers_of(keys: pa.Array, kind: KeyKind) -> npt.NDArray[np.int64]:
    """Return the number of each key, n of them, in the order of the server. keys: without nulls."""
    if keys.null_count:
        raise _unfit(counted(keys.null_count, "null"), "keys that are not null")
    if kind is KeyKind.UUID:
        return _uuid_numbers(keys)
    if kind is KeyKind.INTEGER and pa.types.is_signed_integer(keys.type):
        return _int64(keys.cast(pa.int64()))
    if kind is KeyKind.DATE and pa.types.is_date32(keys.type):
        return _int64(keys.cast(pa.int32()).cast(pa.int64()))
    if kind in {KeyKind.TIMESTAMP, KeyKind.TIMESTAMPTZ} and pa.types.is_timestamp(keys.type):
        micros = keys.cast(pa.timestamp("us", tz=keys.type.tz), safe=False)
        return _int64(micros.cast(pa.int64()))
    raise _unfit(f"a column of the type {keys.type}", f"keys of the kind {kind.value}")


def _int64(values: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = values.to_numpy(zero_copy_only=False)
    return numbers


def _uuid_numbers(keys: pa.Array) -> npt.NDArray[np.int64]:
    if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)):
        raise _unfit(f"a column of the type {keys.type}", "texts of UUIDs")
    texts = keys.cast(pa.large_string())
    count = len(texts)
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + count + 1]
    if not count:
        return np.empty(0, np.int64)
    if (np.diff(offsets) != _UUID_LENGTH).any():
        raise _unfit("a text of another length", f"texts of UUIDs, {_UUID_LENGTH} letters each")
    letters = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    digits = letters.reshape(count, _UUID_LENGTH)[:, _UPPER_DIGITS]
    # '0'..'9' are 0x30..0x39, 'a'..'f' 0x61..0x66, 'A'..'F' 0x41..0x46
    nibbles = (digits & 0xF) + 9 * (digits >> 6)
    upper = (nibbles[:, 0::2] << 4 | nibbles[:, 1::2]).astype(np.uint8)
    numbers = np.ascontiguousarray(upper).view(">u8").ravel().astype(np.uint64)
    flipped: npt.NDArray[np.int64] = (numbers ^ np.uint64(_TOP)).view(np.int64)
    return flipped


def _literal(kind: KeyKind, number: int) -> str:
    return _LITERALS[kind](number)


def _integer_literal(number: int) -> str:
    return f"'{number}'::int8"


def _uuid_literal(number: int) -> str:
    digits = f"{number + _TOP:016x}" + "0" * 16
    return f"'{digits}'::uuid"


def _date_literal(number: int) -> str:
    return f"'{date(1970, 1, 1) + timedelta(days=number)}'::date"


def _timestamp_literal(number: int) -> str:
    return f"'{(_EPOCH + number * _MICROS).isoformat(sep=' ')}'::timestamp"


def _timestamptz_literal(number: int) -> str:
    return f"'{(_EPOCH + number * _MICROS).isoformat(sep=' ')}+00'::timestamptz"


_LITERALS: Final = {
    KeyKind.INTEGER: _integer_literal,
    KeyKind.UUID: _uuid_literal,
    KeyKind.DATE: _date_literal,
    KeyKind.TIMESTAMP: _timestamp_literal,
    KeyKind.TIMESTAMPTZ: _timestamptz_literal,
}


def _unfit(found: str, expected: str) -> InvalidError:
    return InvalidError(
        "the keys of a chunk",
        found=found,
        expected=expected,
        action="Pass the first column of the key, with the type that the target has for it.",
    )
