"""Times as microseconds since 1970, in UTC: those of entities, of tiles and of events.

In: an Arrow array of TIMESTAMP in any unit, or DATE, which is its midnight, without nulls. A time without a zone is in
UTC. Out: int64[n], rounded down. Raises InvalidError for a time that 64 bits do not hold in microseconds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import fixed_values

_MICROS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}


def time_micros(times: pa.Array) -> Positions:
    """Return the times, all of which are there."""
    if pa.types.is_date(times.type):
        times = times.cast(pa.date32()).cast(pa.timestamp("s"))
    numbers = fixed_values(times, np.int64)
    unit = times.type.unit
    if unit == "ns":
        return numbers // 1000
    most = np.iinfo(np.int64).max // _MICROS[unit]
    far = (numbers > most) | (numbers < -most)
    if far.any() and unit != "us":
        raise InvalidError(
            "times",
            found=f"{numbers[far.argmax()]} {unit} after 1970, in row {far.argmax()}",
            expected="times that 64 bits hold in microseconds",
            action="Correct the time.",
        )
    return numbers * _MICROS[unit]
