"""The type of the target's column that a user wishes for a type of PostgreSQL.

    any type              STRING, the server's text; no value is bad
    numeric               DECIMAL(p, s), rounded to s digits as the server's cast does; what it does not hold is bad
    int2, int4            INT (of int2), BIGINT
    float4                DOUBLE, with the value of the FLOAT
    time                  TIME(3); a time with microseconds is bad
    any type              the type that it gets without a wish

In: a SourceType and the text of the wish, in any case and with any spaces. Out: a TargetType. Raises InvalidError for a
pair that is not above. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from widetable import InvalidError
from widetable_cdc.values.column_type import TargetType, column_type
from widetable_cdc.values.source_type import SourceType
from widetable_cdc.values.value_reading import decimal_reading, time_reading, widened_reading

_DECIMAL: Final = re.compile(r"DECIMAL\((\d+)(?:, (\d+))?\)")
_MOST_DIGITS: Final = 38
# The type without a wish -> wider ones.
_WIDER: Final = {
    "SMALLINT": {"INT": pa.int32(), "BIGINT": pa.int64()},
    "INT": {"BIGINT": pa.int64()},
    "FLOAT": {"DOUBLE": pa.float64()},
}


@dataclass(frozen=True)
class TypeWishes:
    """The wishes for one table. types: by the names of columns. decimal: as in `column_type`, for all others."""

    types: Mapping[str, str] = field(default_factory=dict)
    decimal: str | None = None

    def type_of(self, column: str, source: SourceType) -> TargetType:
        """Return the type of the target for a column of the source. Raises InvalidError as `wished_type` does."""
        usual = column_type(source, decimal=self.decimal)
        if column not in self.types:
            return usual
        wished = wished_type(source, self.types[column], decimal=self.decimal, column=column)
        return replace(wished, is_usual=wished.target == usual.target)


def wished_type(
    source: SourceType, wish: str, *, decimal: str | None = None, column: str = ""
) -> TargetType:
    """Return the type. decimal: as in `column_type`. column: its name, for errors."""
    usual, text = column_type(source, decimal=decimal), _normal(wish)
    if text == "STRING":
        return column_type(source, as_string=True)
    if text == usual.target:
        return usual
    made = _MADE.get(source.name, _none)(source, text)
    if made is not None:
        return made
    wider = _WIDER.get(usual.target, {})
    if text in wider:
        return replace(usual, target=text, reading=widened_reading(usual.reading, wider[text]))
    can = [usual.target, *wider, *_SAID.get(source.name, ()), "STRING"]
    raise InvalidError(
        f"the type {wish!r} for the column {column!r} of the type {source.name}",
        found="a type that its values are not cast to",
        expected=" or ".join(dict.fromkeys(can)),
        action="Correct the entry `types` of the table.",
    )


def _normal(wish: str) -> str:
    """Return a type as types are written here: DECIMAL(38, 2)."""
    return re.sub(r"\s*([(),])\s*", r"\1", wish.strip().upper()).replace(",", ", ")


def _decimal(source: SourceType, text: str) -> TargetType | None:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2] or 0)
    if not 1 <= precision <= _MOST_DIGITS or scale > precision:
        return None
    target = f"DECIMAL({precision}, {scale})"
    return TargetType(source, target, None, decimal_reading(precision, scale, is_rounded=True))


def _time(source: SourceType, text: str) -> TargetType | None:
    return TargetType(source, text, None, time_reading()) if text == "TIME(3)" else None


def _none(source: SourceType, text: str) -> TargetType | None:
    return None


_MADE: Final[dict[str, Callable[[SourceType, str], TargetType | None]]] = {
    "numeric": _decimal,
    "time": _time,
}
_SAID: Final = {"numeric": ("DECIMAL(p, s) with 0 <= s <= p <= 38",), "time": ("TIME(3)",)}
