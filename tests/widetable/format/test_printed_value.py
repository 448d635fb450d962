"""Values are printed by one rule, whatever their bits: as JSON has them, also where Python has no such value."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from tests.support.models.bit_patterns import draw_column, draw_type
from widetable.format.printed_value import printed, printed_rows

LAST_DAY = 2**31 - 1
LAST = 2**63 - 1

PRINTED = {
    "flag": (pa.array([True, None]), [True, None]),
    "number": (pa.array([LAST, None]), [LAST, None]),
    "float": (
        pa.array([1.5, float("nan"), float("-inf"), float("inf")]),
        [1.5, "NaN", "-Infinity", "Infinity"],
    ),
    "decimal": (pa.array(["-1.50"]).cast(pa.decimal128(5, 2)), ["-1.50"]),
    "small decimal": (
        pa.array([1, 0]).cast(pa.decimal128(38, 0)).view(pa.decimal128(38, 10)),
        ["0.0000000001", "0.0000000000"],
    ),
    "text": (
        pa.array([b"gr\xc3\xbc\xff\xed\xa0\x80", None]).view(pa.string()),
        ["grü\ufffd\ufffd\ufffd\ufffd", None],
    ),
    "bytes": (pa.array([b"\x00\xff"]), ["00ff"]),
    "day": (
        pa.array([19_782, LAST_DAY, -719_529, -(2**31)], pa.int32()).view(pa.date32()),
        ["2024-02-29", "+5881580-07-11", "-0001-12-31", "-5877641-06-23"],
    ),
    "time": (
        pa.array([37_800_000, 37_800_007], pa.int32()).view(pa.time32("ms")),
        ["10:30:00", "10:30:00.007"],
    ),
    "millis": (
        pa.array([0, -1], pa.int64()).view(pa.timestamp("ms")),
        ["1970-01-01 00:00:00", "1969-12-31 23:59:59.999"],
    ),
    "last millis": (
        pa.array([LAST, None], pa.int64()).view(pa.timestamp("ms")),
        ["+292278994-08-17 07:12:55.807", None],
    ),
    "micros with a zone": (
        pa.array([1], pa.int64()).view(pa.timestamp("us", "UTC")),
        ["1970-01-01 00:00:00.000001+00:00"],
    ),
    "nanos": (
        pa.array([-LAST - 1], pa.int64()).view(pa.timestamp("ns")),
        ["1677-09-21 00:12:43.145224192"],
    ),
    "list": (
        pa.array([[1, None], None, [], [2]], pa.list_(pa.int32())),
        [[1, None], None, [], [2]],
    ),
    "map": (
        pa.array([[("a", b"\x01")], None, [("b", None)]], pa.map_(pa.string(), pa.binary())),
        [[["a", "01"]], None, [["b", None]]],
    ),
    "row": (
        pa.array([{"a": b"\x01", "b": None}, None], pa.struct({"a": pa.binary(), "b": pa.int8()})),
        [{"a": "01", "b": None}, None],
    ),
}


@pytest.mark.parametrize("case", PRINTED)
def test_a_value_is_printed(case: str) -> None:
    column, expected = PRINTED[case]
    assert printed(column) == expected
    assert printed(column[1:]) == expected[1:]
    assert printed(pa.chunked_array([column, column])) == expected * 2


def test_every_bit_pattern_is_printed_as_json(rng: random.Random) -> None:
    for _ in range(150):
        column = draw_column(rng, draw_type(rng), 9)
        rows = list(printed_rows(pa.table({"v": column}).slice(2, 5)))
        assert len(rows) == 5
        assert json.loads(json.dumps(rows, allow_nan=False)) == rows
        assert [row["v"] is None for row in rows] == column.is_null().to_pylist()[2:7]
