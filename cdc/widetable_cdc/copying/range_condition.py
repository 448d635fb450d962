"""A range of keys as a condition on the target's column, for scans of what the target has in it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.source.chunk_range import ChunkRange, KeyKind

_UUID_TOP: Final = 1 << 63


def range_condition(key_range: ChunkRange, column: pa.Field) -> pc.Expression:
    """Return the condition that a key lies in the range. column: the target's; it is never null."""
    key = pc.field(column.name)
    if key_range.kind is None or (key_range.low is None and key_range.high is None):
        return key.is_valid()
    value = _VALUES[key_range.kind]
    conditions = []
    if key_range.low is not None:
        conditions.append(key >= value(key_range.low, column.type))
    if key_range.high is not None:
        conditions.append(key < value(key_range.high, column.type))
    return conditions[0] if len(conditions) == 1 else conditions[0] & conditions[1]


def _number(number: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(number, pa.int64()).cast(kind)


def _day(number: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(number, pa.int32()).cast(kind)


def _moment(number: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(number, pa.timestamp("us", tz=kind.tz))


# UUIDs are texts there, in lower case, so their texts have the order of their bytes.
def _uuid(number: int, kind: pa.DataType) -> pa.Scalar:
    digits = f"{number + _UUID_TOP:016x}" + "0" * 16
    text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return pa.scalar(text, kind)


_VALUES: Final[dict[KeyKind, Callable[[int, pa.DataType], pa.Scalar]]] = {
    KeyKind.INTEGER: _number,
    KeyKind.UUID: _uuid,
    KeyKind.DATE: _day,
    KeyKind.TIMESTAMP: _moment,
    KeyKind.TIMESTAMPTZ: _moment,
}
