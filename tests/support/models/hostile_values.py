"""Values that nobody means, for every argument of the public face: wrong types, numbers out of range, texts that no
file can have as its name, Arrow objects of the wrong kind, and values whose repr fails.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc


class Unprintable:
    """An object that cannot say what it is."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def nested(depth: int) -> list[Any]:
    """A list in a list in a list: too deep for repr, and for what walks it by recursion."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


DEEP: Final = nested(100_000)
TEXTS: Final = (
    "",
    " ",
    "\t a",
    "\0",
    "a\0b",
    ".",
    "..",
    "a/b",
    "../a",
    "a\\b",
    "\ud800",
    "x" * 300,
    "ü" * 150,
    "x" * 5000,
    "1",
    "a.b",
    "db.\0",
    "db.\ud800",
    "db." + "x" * 300,
    "file:///\0",
    "oss://a/b",
    "http://[",
    "~nobody-of-that-name/x",
    "-1",
    "k = ",
    "(" * 3000 + "k = 1" + ")" * 3000,
    "not " * 5000 + "k = 1",
    "k = 1" + "0" * 5000,
    "k = 1e999999999",
    "s = '\ud800'",
    "s like '\ud800'",
    "d = date '99999-01-01'",
)
NUMBERS: Final = (
    True,
    False,
    np.bool_(True),
    0,
    -1,
    1.0,
    1.5,
    math.nan,
    math.inf,
    -math.inf,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    -(2**63),
    2**70,
    10**5000,
    np.int64(3),
    np.uint64(2**64 - 1),
    np.float64(1),
    np.float32(math.nan),
    1j,
    Decimal(1),
    Decimal("NaN"),
    Fraction(1, 3),
)
TIMES: Final = (
    dt.date(2024, 1, 1),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59),
    dt.datetime(9999, 12, 31, tzinfo=dt.timezone(dt.timedelta(hours=-23))),
    dt.timedelta(1),
    dt.time(1),
    np.datetime64("2024-01-01"),
    np.datetime64("NaT", "D"),
    pd.Timestamp("2024-01-01"),
    pd.NaT,
)


def hostile_values() -> Iterator[Any]:
    """All of them, anew: some can be read once only."""
    yield from (None, *NUMBERS, *TEXTS, *TIMES)
    yield from (
        b"bytes",
        bytearray(b"a"),
        memoryview(b"a"),
        np.str_("k"),
        np.array([1]),
        np.array("k"),
    )
    yield from ([], {}, (), set(), object(), object, len, Unprintable(), Ellipsis, Path("k"))
    yield from (
        nested(3),
        DEEP,
        [None],
        [Unprintable()],
        ["k", "k"],
        [b"k"],
        [1],
        ["\ud800"],
    )
    yield from (
        {"k": "v"},
        {"k": None},
        {1: "a"},
        {None: None},
        {"\ud800": "a"},
        {"a": "\ud800"},
        {"a": 1},
    )
    yield from (
        {"bucket": 2**70},
        {"s3.endpoint": "http://["},
        {"s3.access-key": "\ud800", "s3.secret-key": "a"},
        {"bucket": "1" * 5000},
        {"k": Unprintable()},
        [{"k": 1}],
        [{}],
        [{1: 2}],
    )
    yield from (iter([]), iter([1]), range(3), (name for name in ("k",)))
    yield from (
        pa.array([1]),
        pa.array([None]),
        pa.chunked_array([[1]]),
        pa.scalar(1),
        pa.int64(),
        pa.null(),
    )
    yield from (
        pa.field("k", pa.int64()),
        pa.schema([]),
        pa.schema([("k", pa.int64())]),
        pa.table({}),
    )
    yield from (
        pa.table({"k": [1]}),
        pa.table({"k": ["a"]}),
        pa.table({"\ud7ff": [1]}),
        pa.py_buffer(b""),
    )
    yield from (pa.record_batch({"k": [2**62]}), pa.table({"k": [1], "s": [1j.real]}))
    yield from (
        pc.field("k"),
        pc.field("k") == 1,
        pc.field(0) == 1,
        pc.scalar(1),
        pc.field("nope") == 1,
    )
    yield from (pd.DataFrame({"k": [1]}), pd.DataFrame({1: [1]}), pd.Series([1]))
    yield from ({"k": DEEP}, [{"k": DEEP}], pd.Series([DEEP]), {"k": [1], "s": DEEP}, pa.Table)
    yield from ({"k": [1, 2], "s": ["a"]}, {"k": np.ones((2, 2))}, {"k": [object()]}, {"k": {1}})
    yield from (pd.DataFrame([[1, 2]], columns=["k", "k"]), pd.MultiIndex.from_tuples([(1, 2)]))
