"""Values as people write them (str, Decimal, date) as the plain values of BinaryRows, and rows of them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

from widetable.format.binary_row import encode_row
from widetable.format.plain_value import PlainValue
from widetable.schema.types import DataType


def plain_value(value: Any, kind: DataType) -> PlainValue:
    if kind.root == "DECIMAL" and value is not None:
        return int(Decimal(value).scaleb(kind.scale or 0, Context(prec=50)))
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, datetime.date):
        return value.toordinal() - datetime.date(1970, 1, 1).toordinal()
    plain: PlainValue = value
    return plain


def plain_values(values: Sequence[Any], types: Sequence[DataType]) -> tuple[PlainValue, ...]:
    return tuple(plain_value(value, kind) for value, kind in zip(values, types, strict=True))


def row_of(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """One row, arity in front."""
    return encode_row(plain_values(values, types), types)
