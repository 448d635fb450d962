"""Plain values: Python values for the fields of a BinaryRow, which can represent every bit pattern; and their order.

    BOOLEAN                              bool
    TINYINT to BIGINT                    int
    DATE, TIME, TIMESTAMP                int: days, milliseconds, the Arrow unit of the type (types.arrow_type)
    DECIMAL                              int, unscaled
    FLOAT, DOUBLE                        float
    CHAR, VARCHAR, BINARY, VARBINARY     bytes; UTF-8 for texts, or other bytes that another client wrote
    null                                 None

`date`, `str` and `Decimal` are not used: a day may be after the year 9999 and a text need not be UTF-8, and no key may
make a file unreadable. The order is that of files and manifests: null first, numbers by value, floats in Java's total
order, bytes unsigned. `kernels.key_lanes` has this order for columns. Raises InvalidError for a value that a column
of the type cannot hold, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.float_order import order_bits
from widetable.schema.types import DataType, arrow_type

PlainValue: TypeAlias = bool | int | float | bytes | None
RowOrder: TypeAlias = Callable[[Sequence[PlainValue]], tuple[Any, ...]]

_DECIMAL_BYTES: Final = 16
FLOATS: Final = ("FLOAT", "DOUBLE")
TEXTS: Final = ("CHAR", "VARCHAR")


def row_order(types: Sequence[DataType]) -> RowOrder:
    """Return a sort key for rows of these types: it makes tuples that Python can compare.

    Rows (INT, DOUBLE) in this order: (None, 1.0), (1, None), (1, -0.0), (1, 0.0), (1, nan).
    In Python's own order of floats -0.0 and 0.0 are equal, and NaN has no place.
    """
    keys = tuple(map(value_order, types))
    return lambda row: tuple(key(value) for key, value in zip(keys, row, strict=True))


def value_order(kind: DataType) -> Callable[[PlainValue], tuple[Any, ...]]:
    """Return a sort key for values of this type: () for null, before all others."""
    return _float_key if kind.root in FLOATS else _key


def _key(value: PlainValue) -> tuple[Any, ...]:
    return () if value is None else (value,)


def _float_key(value: Any) -> tuple[Any, ...]:
    return () if value is None else (int(order_bits(np.array([value], np.float64))[0]),)


def plain_column(values: Sequence[PlainValue], kind: DataType) -> pa.Array:
    """Return the values as a column of the type.

    The column is made from the type's storage, as Arrow would refuse a far date or a text that is no UTF-8.
    Raises InvalidError for values that the type cannot hold.
    """
    target = arrow_type(kind)
    try:
        if kind.root == "DECIMAL":
            words = [None if v is None else _decimal_bytes(v, kind) for v in values]
            return pa.array(words, pa.binary(_DECIMAL_BYTES)).view(target)
        if kind.root in TEXTS:
            return pa.array(values, pa.binary()).view(target)
        is_time = pa.types.is_temporal(target)
        stored = pa.int32() if is_time and target.bit_width == 32 else pa.int64()
        return pa.array(values, stored).view(target) if is_time else pa.array(values, target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise InvalidError(
            f"value of the type {kind}",
            found=f"{next((v for v in values if v is not None), None)!r}: {cause}",
            expected=f"a value that {kind} holds",
            action="Correct the value.",
        ) from cause


def _decimal_bytes(value: Any, kind: DataType) -> bytes:
    if abs(value) >= 10 ** (kind.precision or 0):
        raise ValueError(f"more than {kind.precision} digits")
    return int(value).to_bytes(_DECIMAL_BYTES, "little", signed=True)
