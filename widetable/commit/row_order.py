"""The order of decoded BinaryRows: keys of files and partition values, as Python values that compare like
Paimon's rows.

In: tuples of `format.binary_row.decode_row`. Out: tuples to compare. Floating point goes as in
Java's `Double.compare`: -0.0 before 0.0, NaN last. All else compares by itself: strings by code point, which is
the order of their UTF-8 bytes (Paimon `BinaryString`), false before true. Raises nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from widetable.types import DataType

RowOrder = Callable[[Sequence[Any]], tuple[Any, ...]]


def _float_bits(value: float) -> int:
    """An integer that orders as `Double.compare` does: the sign bit turned, negatives mirrored."""
    if value != value:
        return 1 << 63
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF) - 1


def _itself(value: Any) -> Any:
    return value


_BY_ROOT: Final[dict[str, Callable[[Any], Any]]] = {
    "FLOAT": _float_bits,
    "DOUBLE": _float_bits,
}


def row_order(types: Sequence[DataType]) -> RowOrder:
    """A function from a decoded row without nulls to what it sorts by."""
    readers = tuple(_BY_ROOT.get(type.root, _itself) for type in types)
    return lambda row: tuple(read(value) for read, value in zip(readers, row, strict=True))


def value_order(type: DataType) -> Callable[[Any], Any]:
    """The same for one value that is not null."""
    return _BY_ROOT.get(type.root, _itself)
