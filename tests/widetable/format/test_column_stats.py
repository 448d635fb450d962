"""Statistics that manifests hold: exact for keys, silent about values."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from tests.support.models.row_values import row_of
from widetable.format.binary_row import decode_row
from widetable.format.column_stats import (
    EMPTY_STATS,
    MAX_UNKNOWN_COLUMNS,
    KeyStats,
    Stats,
    unknown_stats,
    value_stats,
)
from widetable.schema.types import DataType, arrow_type, parse_type


def stats_of(kind: DataType, *batches: list[object]) -> tuple[object, object, int | None]:
    collected = KeyStats([kind])
    for batch in batches:
        collected.add([pa.array(batch, arrow_type(kind))])
    stats = collected.build()
    (low,) = decode_row(stats.min_values, [kind])
    (high,) = decode_row(stats.max_values, [kind])
    return low, high, stats.null_counts[0]


def test_extremes_and_nulls_of_several_batches() -> None:
    types = [parse_type("STRING"), parse_type("DECIMAL(20, 2)"), parse_type("TIMESTAMP(9)")]
    collected = KeyStats(types)
    collected.add(
        [
            pa.array(["b", None]),
            pa.array([1, 2], arrow_type(types[1])),
            pa.array([5, -7], arrow_type(types[2])),
        ]
    )
    collected.add(
        [
            pa.array(["ab", "é"]),
            pa.array([-3, 0], arrow_type(types[1])),
            pa.array([9, 0], arrow_type(types[2])),
        ]
    )
    assert collected.build() == Stats(
        row_of(("ab", -3, -7), types), row_of(("é", 2, 9), types), (1, 0, 0)
    )


def test_long_strings_are_not_cut() -> None:
    long = "y" * 100
    found = stats_of(parse_type("STRING"), [long, long + "z"])
    assert found == (long.encode(), long.encode() + b"z", 0)


def test_strings_are_compared_by_unsigned_bytes() -> None:
    found = stats_of(parse_type("STRING"), ["z", "é", "\U0001f600", "a"])
    assert found == (b"a", "\U0001f600".encode(), 0)


@pytest.mark.parametrize("kind", ["BYTES", "BINARY(1)", "VARBINARY(2)"])
def test_bytes_have_no_extremes_as_java_compares_them_signed(kind: str) -> None:
    assert stats_of(parse_type(kind), [b"\x7f", b"\x80"], [None]) == (None, None, 1)


def test_nulls_only_have_no_extremes() -> None:
    assert stats_of(parse_type("INT"), [None, None], [None]) == (None, None, 3)
    assert stats_of(parse_type("INT"), [None], [4]) == (4, 4, 1)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_nan_leaves_a_float_column_without_a_range(kind: str) -> None:
    # Java sorts NaN last: a range that leaves it out would make a filter `> 1` skip the file.
    assert stats_of(parse_type(kind), [1.0], [math.nan, 2.0]) == (None, None, 0)


@pytest.mark.parametrize("zeros", [[0.0], [-0.0], [0.0, -0.0]])
def test_range_that_ends_in_a_zero_holds_both_zeros(zeros: list[object]) -> None:
    low, high, _ = stats_of(parse_type("DOUBLE"), zeros)
    assert (math.copysign(1, float(str(low))), math.copysign(1, float(str(high)))) == (-1, 1)


def test_unknown_stats_are_nulls_of_the_full_arity() -> None:
    stats = unknown_stats(3)
    assert decode_row(stats.min_values, [DataType("INT")] * 3) == (None, None, None)
    assert stats.max_values == stats.min_values
    assert stats.null_counts == (None, None, None)


def test_form_that_says_nothing_fits_the_readers() -> None:
    narrow, wide = MAX_UNKNOWN_COLUMNS, MAX_UNKNOWN_COLUMNS + 1
    assert value_stats(narrow, old_readers=False) == (unknown_stats(narrow), None)
    assert value_stats(wide, old_readers=True) == (unknown_stats(wide), None)
    assert value_stats(wide, old_readers=False) == (EMPTY_STATS, ())
