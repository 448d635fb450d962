"""Functions of computed columns: Paimon's rules for each, nulls, and what is refused."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from widetable import InvalidError
from widetable_cdc.columns.expression import parse_expression
from widetable_cdc.columns.functions import typed_expression
from widetable_cdc.columns.typed_expression import ColumnKind, SourceRows, TypedExpression

KINDS = {
    "a": ColumnKind("STRING", pa.large_string()),
    "n": ColumnKind("INT", pa.int32()),
    "big": ColumnKind("BIGINT", pa.int64()),
    "d": ColumnKind("DECIMAL(10, 2)", pa.decimal128(10, 2)),
    "wide": ColumnKind("DECIMAL(38, 2)", pa.decimal128(38, 2)),
    "small": ColumnKind("DECIMAL(10, 8)", pa.decimal128(10, 8)),
    "at": ColumnKind("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC")),
    "day": ColumnKind("DATE", pa.date32()),
    "f": ColumnKind("FLOAT", pa.float32()),
}
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)


def typed(text: str) -> TypedExpression:
    return typed_expression(parse_expression(text), KINDS)


def value(text: str, **columns: Any) -> Any:
    """The value of an expression for one row; it is the same in a slice, and null for nulls."""
    expression = typed(text)
    arrays = {
        name: pa.array([None, each, each], KINDS[name].arrow) for name, each in columns.items()
    }
    whole = expression.evaluate(SourceRows(arrays, 3))
    cut = {name: array.slice(1) for name, array in arrays.items()}
    sliced = expression.evaluate(SourceRows(cut, 2))
    assert whole.type == expression.kind.arrow
    first, *rest = whole.to_pylist()
    assert rest == sliced.to_pylist()
    assert first is None or expression.column is None
    return rest[0]


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("year(day)", {"day": date(9, 1, 2)}, 9),
        ("month(at)", {"at": MOMENT}, 1),
        ("minute(at)", {"at": MOMENT}, 4),
        ("second(at)", {"at": MOMENT}, 5),
        ("hour(day)", {"day": date(2026, 1, 2)}, 0),
        ("year(n)", {"n": -1}, 1969),
        ("hour(big, 3)", {"big": 3_600_000 * 25}, 1),
        ("second(big, 6)", {"big": -1}, 59),
        ("date_format(at, 'yyyy-MM-dd''T''HH:mm:ss.SSS')", {"at": MOMENT}, "2026-01-02T03:04:05.678"),
        ("date_format(day, 'yy/M/d')", {"day": date(2026, 3, 4)}, "26/3/4"),
        ("date_format(big, 'yyyyMMddHH', 9)", {"big": 86_400 * 10**9}, "1970010200"),
        ("date_format(at, '''day''')", {"at": MOMENT}, "day"),
        ("substring(a, 2)", {"a": "a\U0001f600cd"}, "cd"),
        ("substring(a, 1, 3)", {"a": "aßcd"}, "ßc"),
        ("substring(a, 5, 9)", {"a": "abc"}, ""),
        ("truncate(a, 2)", {"a": "ßßß"}, "ßß"),
        ("truncate(a, 9)", {"a": "ab"}, "ab"),
        ("truncate(d, 50)", {"d": Decimal("10.65")}, Decimal("10.50")),
        ("truncate(d, 50)", {"d": Decimal("-10.65")}, Decimal("-11.00")),
        ("upper(lower(a))", {"a": "äB"}, "ÄB"),
        ("trim(a)", {"a": "\t a b \n\x01"}, "a b"),
        ("cast(n as string)", {"n": -7}, "-7"),
        ("CAST(day AS STRING)", {"day": date(2026, 1, 2)}, "2026-01-02"),
        ("cast(at as date)", {"at": datetime(1969, 12, 31, 23, tzinfo=timezone.utc)}, date(1969, 12, 31)),
        ("cast(n as decimal(12, 2))", {"n": 5}, Decimal("5.00")),
        ("cast(f as double)", {"f": 0.1}, 0.10000000149011612),
        ("'it''s'", {}, "it's"),
        ("-5", {}, -5),
        ("5000000000", {}, 5_000_000_000),
        ("true", {}, True),
        ('"a"', {"a": "x"}, "x"),
    ],
)  # fmt: skip
def test_a_function_has_the_value_that_its_rule_says(
    text: str, columns: dict[str, Any], expected: Any
) -> None:
    assert value(text, **columns) == expected


def test_numbers_are_truncated_by_the_formula_of_paimon(rng: random.Random) -> None:
    for _ in range(200):
        number, width = rng.randint(-(10**9), 10**9), rng.randint(1, 10**6)
        expected = number - (((number % width) + width) % width)
        assert value(f"truncate(n, {width})", n=number) == expected
        assert value(f"truncate(big, {width})", big=number * 1000) % width == 0


def test_now_is_when_a_row_is_written() -> None:
    rows = SourceRows({}, 2, 1_767_323_045_678)
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=1_767_323_045_678)
    assert typed("now()").evaluate(rows).to_pylist() == [moment] * 2
    assert not typed("now()").is_stable


@pytest.mark.parametrize("text", ["n", "cast(n as string)", "cast(cast(n as bigint) as string)"])
def test_what_keeps_values_apart_may_be_a_key(text: str) -> None:
    assert typed(text).keeps_apart


@pytest.mark.parametrize(
    "text", ["upper(a)", "truncate(n, 10)", "cast(at as date)", "'x'", "cast(upper(a) as string)"]
)
def test_what_makes_values_equal_may_not(text: str) -> None:
    assert not typed(text).keeps_apart


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("foo(a)", "'foo'.*year, month, day, hour.*trim"),
        ("uppr", "'uppr'"),
        ("a + 1", "a + 1"),
        ("a || 'x'", "a || 'x'"),
        ("select 1", "SELECT 1"),
        ("a; n", "several"),
        ("", "no expression"),
        ("lower(a", "no expression"),
        ("null", "NULL"),
        ("1.5", "1.5"),
        ("99999999999999999999", "64 bits"),
        ("year(a)", "STRING"),
        ("year(n, 4)", "digits 4"),
        ("year(day, 3)", "digits"),
        ("year()", "0 arguments"),
        ("date_format(at)", "no pattern"),
        ("date_format(at, 'EEE')", "'EEE'"),
        ("date_format(at, 'yyy')", "'yyy'"),
        ("substring(a, -1)", "negative"),
        ("substring(a, 3, 3)", "not ascending"),
        ("substring(a, n)", "no constant"),
        ("substring(n, 1)", "INT"),
        ("truncate(n)", "width"),
        ("truncate(n, 0)", "width"),
        ("truncate(wide, 10)", "18 digits"),
        ("cast(a as int)", "STRING to INT"),
        ("cast(n as smallint)", "INT to SMALLINT"),
        ("cast(d as int)", "DECIMAL"),
        ("cast(small as string)", "DECIMAL"),
        ("cast(n as decimal(10, 2))", "INT to DECIMAL"),
        ("now(a)", "1 argument"),
        ("upper(a, 'x')", "2 arguments"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem.replace("+", r"\+").replace("||", r"\|\|")):
        typed(text)
