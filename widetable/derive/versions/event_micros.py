"""The times of events as microseconds since the epoch, from a column of times, or of numbers with a unit.

    TIMESTAMP, DATE       without a unit; finer parts than a microsecond are dropped
    numbers               with `seconds`, `millis`, `micros` or `nanos`; one that is too large for microseconds is later
                          or earlier than all times, and stays so

In: a column without nulls. Out: int64[n]. Raises InvalidError for a time that is out of range.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import fixed_values, one_array
from widetable.operations.windows.time_micros import time_micros

_PER_SECOND: Final = {"seconds": 1, "millis": 1000, "micros": 1_000_000}


def event_micros(column: pa.ChunkedArray, unit: str | None) -> Positions:
    """Return the times."""
    if unit is None:
        return time_micros(one_array(column))
    numbers: Positions = fixed_values(one_array(column.cast(pa.int64())), np.int64)
    if unit == "nanos":
        return np.floor_divide(numbers, 1000)
    factor = 1_000_000 // _PER_SECOND[unit]
    most = np.iinfo(np.int64).max // factor
    return np.multiply(np.clip(numbers, -most, most), factor)
