"""The values of a column in the form in which file indexes have them: whole numbers, or bytes.

    type                            form                             1970-01-01 00:00:00.0015
    TINYINT to BIGINT, DATE, TIME   int8 to int64, days, milliseconds
    TIMESTAMP of 0 to 3 digits      int64, milliseconds              1
    TIMESTAMP of 4 to 9 digits      int64, microseconds              1500: finer digits are left out
    FLOAT, DOUBLE                   int32, int64: the bits; one NaN
    BOOLEAN                         int8, 0 and 1
    texts, binaries                 binary

So timestamps of 7 to 9 digits may be equal here although they differ: an index may be taken as "maybe", never as "all
of these rows". Source: Paimon `FastHash`, `BitmapFileIndex.getValueMapper`. Nulls stay. Pure, raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from widetable.format.plain_value import FLOATS, plain_column
from widetable.kernels.arrow_buffers import bitmap, bool_values, fixed_values, validity
from widetable.schema.types import DataType, timestamp_unit

# A plan asks many files for the values of few filters.
_FILTERS: Final = 16
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_BYTES: Final = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")


def indexed_values(column: pa.Array, kind: DataType) -> pa.Array:
    """Return the values of a column of this type."""
    if kind.root in _BYTES:
        return column.cast(pa.binary())
    if kind.root == "BOOLEAN":
        return _like(column, bool_values(column).astype(np.int8))
    if kind.root in FLOATS:
        width = column.type.bit_width // 8
        values = fixed_values(column, f"f{width}")
        one_nan = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
        return _like(column, one_nan.view(f"i{width}"))
    values = fixed_values(column, f"i{column.type.bit_width // 8}")
    if kind.root in _TIMESTAMPS and timestamp_unit(kind.precision or 0) == "ns":
        values = values // 1000
    return _like(column, values)


def sought_values(comparables: Iterable[Any], kind: DataType) -> pa.Array:
    """Return values of a filter, which columns of this type can have (`read.literal`), in the form of the index. Zero
    comes with both signs; a DOUBLE that a FLOAT column cannot have becomes one near it, which may be there.
    """
    return _sought(tuple(comparables), kind)


@lru_cache(_FILTERS)
def _sought(values: tuple[Any, ...], kind: DataType) -> pa.Array:
    if kind.root not in FLOATS:
        return indexed_values(plain_column(values, kind), kind)
    doubles = [np.nan if is_nan else number for is_nan, number in values]
    doubles += [zero for number in doubles if number == 0.0 for zero in (0.0, -0.0)]
    with np.errstate(over="ignore"):
        floats = np.array(doubles, np.float64).astype("f4" if kind.root == "FLOAT" else "f8")
    return indexed_values(pa.array(floats), kind)


def _like(column: pa.Array, values: np.ndarray[Any, Any]) -> pa.Array:
    """Return the values as an array with the nulls of a column."""
    kind = pa.from_numpy_dtype(values.dtype)
    buffers = [bitmap(validity(column)), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(column), buffers)
