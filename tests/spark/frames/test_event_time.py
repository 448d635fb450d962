"""The largest event time of a batch, by type of column."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from widetable import InvalidError
from widetable_spark.frames.event_time import check_event_time, largest_event_time

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 999_999)
NOON_MILLIS = 1_709_208_000_999
UTC = dt.timezone.utc


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([NOON, None, dt.datetime(2024, 1, 1)], pa.timestamp("us"), [NOON_MILLIS]),
        ([NOON.replace(tzinfo=UTC)], pa.timestamp("us", tz="Asia/Tokyo"), [NOON_MILLIS]),
        ([NOON], pa.timestamp("ns"), [NOON_MILLIS]),
        ([5, 7, None], pa.timestamp("ms"), [7]),
        ([5], pa.timestamp("s"), [5000]),
        ([dt.date(1970, 1, 3), dt.date(1969, 1, 1)], pa.date32(), [2 * 86_400_000]),
        ([3, -4, None], pa.int64(), [3]),
        # A part of a millisecond before the epoch is in the millisecond before.
        ([-1], pa.timestamp("us"), [-1]),
        ([None, None], pa.timestamp("us"), []),
        ([], pa.int64(), []),
    ],
)
def test_largest(values: list[object], kind: pa.DataType, expected: list[int]) -> None:
    assert largest_event_time(pa.array(values, kind)) == expected


def test_a_column_without_times_is_refused() -> None:
    schema = pa.schema([("at", pa.string()), ("n", pa.int32()), ("ok", pa.int64())])
    check_event_time(schema, "ok")
    for column, found in (("at", "string"), ("n", "int32"), ("nope", "no such column")):
        with pytest.raises(InvalidError, match=f"'{column}'.*found .*{found}"):
            check_event_time(schema, column)
