"""Event times of a DataFrame, from which writers derive the watermark of a commit.

In: a column of TIMESTAMP (with or without zone), DATE or BIGINT (epoch milliseconds). Out: epoch milliseconds, rounded
down. Nulls have no time. Raises InvalidError for a column that does not exist or has another type.

    TIMESTAMP, microseconds   [1999, -1, null]   [1]       1.999 ms is in millisecond 1
                              [-1, null]         [-1]      before 1970: down, not towards 0
    DATE                      [2024-01-02]       [1704153600000]
    BIGINT                    [null]             []

Rounding down keeps the promise of a watermark: it may be less than the true value, never more.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from widetable import InvalidError

# Milliseconds, and the number of units that make them.
_MILLIS = {"D": (86_400_000, 1), "s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 10**6)}


def check_event_time(schema: pa.Schema, column: str) -> None:
    """Check the column before any row is read. schema: Spark's Arrow form of the DataFrame."""
    index = schema.get_field_index(column)
    column_type = None if index < 0 else schema.field(index).type
    if column_type is None or not (
        pa.types.is_timestamp(column_type)
        or pa.types.is_date32(column_type)
        or pa.types.is_int64(column_type)
    ):
        raise InvalidError(
            f"option 'watermark-column' = {column!r}",
            found="no such column" if column_type is None else f"a column of {column_type}",
            expected="a TIMESTAMP, DATE or BIGINT (epoch milliseconds) column of the DataFrame",
            action="Name another column.",
        )


def largest_event_time(column: pa.Array) -> list[int]:
    """Return the largest event time of one batch; an empty list when all are null.

    column: of a type that `check_event_time` accepts.
    """
    # The maximum is taken over integers: a datetime has no nanoseconds and ends at the year 9999.
    unit = column.type.unit if pa.types.is_timestamp(column.type) else "ms"
    is_date = pa.types.is_date32(column.type)
    largest = pc.max(column.view(pa.int32() if is_date else pa.int64())).as_py()
    millis, units = _MILLIS["D" if is_date else unit]
    return [] if largest is None else [largest * millis // units]
