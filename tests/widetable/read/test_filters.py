"""Filters: what they keep agrees with DuckDB, what they prune is never kept, wrong ones name the column."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from widetable.errors import InvalidError
from widetable.read.filters import parse
from widetable.read.literal import literal, scalar_comparable, scalar_of
from widetable.read.predicate import Bound, Opaque, Predicate
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import arrow_type

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-(2**31), -3, 0, 1, 2, 7, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "d": (
        pa.decimal128(10, 2),
        [Decimal("-9.99"), Decimal("0.00"), Decimal("1.50"), Decimal("99999999.99")],
    ),
    "w": (
        pa.decimal128(38, 10),
        [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10")],
    ),
    "f": (pa.float64(), [-1.5, -0.0, 0.0, 2.5, float("inf"), float("nan")]),
    "g": (pa.float32(), [-1.5, 0.0, 2.5, float("nan")]),
    "s": (pa.string(), ["", "a", "ab", "a%", "b", "ä", "日本"]),
    "b": (pa.bool_(), [True, False]),
    "t": (
        pa.timestamp("ms"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 1, 1, 0, 0, 0, 500000)],
    ),
    "u": (pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
}
LITERALS = {
    "i": ["-3", "0", "1", "2.5", "2147483648", "-1e10", "7"],
    "l": ["-9223372036854775808", "9007199254740993", "0", "0.5", "18446744073709551616"],
    "d": ["1.5", "1.505", "-9.99", "0", "123456789012", "99999999.99"],
    "w": ["-1234567890123456789012345678.0123456789", "0", "1234567890123456789012345678"],
    "f": ["0", "2.5", "-1.5", "1e300"],
    "g": ["0", "2.5", "0.1"],
    "s": ["''", "'a'", "'ab'", "'ä'", "'zzz'", "'it''s'"],
    "b": ["TRUE", "FALSE"],
    "t": [
        "TIMESTAMP '2024-01-01 00:00:00.500'",
        "TIMESTAMP '2024-01-01 00:00:00.5001'",
        "TIMESTAMP '1970-01-01'",
    ],
    "u": ["TIMESTAMP '2024-01-01 00:00:00.000001'", "TIMESTAMP '2024-01-01'"],
    "day": [
        "DATE '2024-02-29'",
        "DATE '1970-01-01'",
        "TIMESTAMP '2024-02-29'",
        "TIMESTAMP '1969-12-31 12:00:00'",
    ],
}
PATTERNS = ["'a%'", "'%b'", "'a_'", "'a'", "'%'", "'日%'"]
SCHEMA = new_schema(
    pa.schema(
        [pa.field("k", pa.int64(), False), *(pa.field(n, t) for n, (t, _) in COLUMNS.items())]
    ),
    primary_key=["k"],
)


def random_table(rng: random.Random, rows: int) -> pa.Table:
    data = {"k": pa.array(range(rows), pa.int64())}
    for name, (kind, values) in COLUMNS.items():
        data[name] = pa.array([rng.choice([*values, None]) for _ in range(rows)], kind)
    return pa.table(data, schema=SCHEMA.arrow_schema())


def random_condition(rng: random.Random, depth: int) -> str:
    shape = rng.choice(["and", "or", "not"]) if depth and rng.random() < 0.6 else "leaf"
    if shape == "not":
        return f"NOT ({random_condition(rng, depth - 1)})"
    if shape != "leaf":
        parts = [f"({random_condition(rng, depth - 1)})" for _ in range(2)]
        return f" {shape.upper()} ".join(parts)
    name = rng.choice(list(COLUMNS))
    return rng.choice(LEAVES)(rng, name)


def _comparison(rng: random.Random, name: str) -> str:
    op = rng.choice(["=", "<>", "!=", "<", "<=", ">", ">="])
    sides = [name, rng.choice(LITERALS[name])]
    rng.shuffle(sides)
    return f"{sides[0]} {op} {sides[1]}"


def _member(rng: random.Random, name: str) -> str:
    values = rng.sample([*LITERALS[name], "NULL"], 2)
    return f"{name} {rng.choice(['IN', 'NOT IN'])} ({', '.join(values)})"


def _between(rng: random.Random, name: str) -> str:
    return f"{name} BETWEEN {rng.choice(LITERALS[name])} AND {rng.choice(LITERALS[name])}"


def _null(rng: random.Random, name: str) -> str:
    return f"{name} IS {rng.choice(['', 'NOT '])}NULL"


def _like(rng: random.Random, name: str) -> str:
    return f"s {rng.choice(['', 'NOT '])}LIKE {rng.choice(PATTERNS)}"


def _truth(rng: random.Random, name: str) -> str:
    return rng.choice(["b", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "TRUE", "FALSE"])


LEAVES: list[Callable[[random.Random, str], str]] = [
    _comparison,
    _comparison,
    _comparison,
    _member,
    _between,
    _null,
    _like,
    _truth,
]


def kept_keys(table: pa.Table, predicate: Predicate) -> list[int]:
    return table.filter(predicate.expression)["k"].to_pylist()  # type: ignore[no-any-return]


def bounds_of(rows: pa.Table, schema: TableSchema) -> dict[str, Bound]:
    """The tightest bounds of the rows."""
    bounds = {}
    for column in schema.fields:
        t = column.type
        known = [scalar_comparable(t, value) for value in rows[column.name] if value.is_valid]
        has_nulls = len(known) < rows.num_rows
        if not known:
            bounds[column.name] = Bound(nulls=True, values=False)
        else:
            low, high = min(known), max(known)
            bounds[column.name] = Bound(low, high, exact=low == high, nulls=has_nulls)
    return bounds


def test_conditions_keep_what_duckdb_keeps(rng: random.Random) -> None:
    table = random_table(rng, 60)
    connection = duckdb.connect()
    connection.register("arrow_rows", table)
    connection.execute("CREATE TABLE rows AS SELECT * FROM arrow_rows")
    for _ in range(400):
        text = random_condition(rng, 3)
        expected = connection.sql(f"SELECT k FROM rows WHERE {text} ORDER BY k").fetchall()
        assert kept_keys(table, parse(text, SCHEMA)) == [key for (key,) in expected], text


def test_what_is_pruned_is_never_kept(rng: random.Random) -> None:
    table = random_table(rng, 80)
    pruned = 0
    for _ in range(400):
        predicate = parse(random_condition(rng, 3), SCHEMA)
        kept = set(kept_keys(table, predicate))
        for _ in range(5):
            keys = rng.sample(range(80), rng.choice([1, 2, 5]))
            may_match = predicate.may_match(bounds_of(table.take(keys), SCHEMA))
            assert may_match or kept.isdisjoint(keys), (predicate.tree, keys)
            pruned += not may_match
    assert pruned > 200


def expressions() -> Iterator[tuple[pc.Expression, bool]]:
    """Expressions, and whether they can be understood."""
    i, s, b, f = pc.field("i"), pc.field("s"), pc.field("b"), pc.field("f")
    yield (i > 1) & s.is_null(), True
    yield (i <= 0) | (pc.field("day") == dt.date(2024, 2, 29)), True
    yield ~((i != 7) & b), True
    yield i.isin([1, 7]), True
    yield ~i.isin([1, 7]), True
    yield s.isin(["a", None]), True
    yield ~s.isin(["a", None]), True
    yield s.is_valid() & (s >= "ab"), True
    yield pc.starts_with(s, "a"), True
    yield ~pc.starts_with(s, "a"), True
    yield pc.scalar(3) < i, True
    yield pc.scalar(True), True
    yield pc.field("t") < dt.datetime(2024, 1, 1), True
    yield pc.field("d") == Decimal("1.50"), True
    yield i == pa.scalar(None, pa.int32()), True
    yield ~(f < 0.5), True
    yield f > 0.5, True
    yield i.cast(pa.float64()) > 1.5, False
    yield i.cast(pa.int64()) + 1 == 2, False
    yield pc.is_nan(f), False
    yield pc.starts_with(s, "A", ignore_case=True), False
    yield f.is_null(nan_is_null=True), False


@pytest.mark.parametrize(
    ("expression", "understood"), list(expressions()), ids=[str(i) for i in range(22)]
)
def test_expressions_decide_and_prune(
    expression: pc.Expression, understood: bool, rng: random.Random
) -> None:
    table = random_table(rng, 80)
    predicate = parse(expression, SCHEMA)
    kept = set(kept_keys(table, predicate))
    assert kept == set(table.filter(expression)["k"].to_pylist())
    assert (not isinstance(predicate.tree, Opaque)) == understood
    for key in range(80):
        assert predicate.may_match(bounds_of(table.take([key]), SCHEMA)) or key not in kept
    for _ in range(40):
        keys = rng.sample(range(80), 3)
        assert predicate.may_match(bounds_of(table.take(keys), SCHEMA)) or kept.isdisjoint(keys)


def test_only_the_named_columns_are_read() -> None:
    assert parse("i = 1 AND (s LIKE 'a%' OR NOT b)", SCHEMA).columns == {"i", "s", "b"}
    assert parse((pc.field("i") + 1 == 2) & pc.field("b"), SCHEMA).columns == {"i", "b"}


def test_keys_fixed_by_a_filter() -> None:
    assert parse("i = 3 AND s = 'a'", SCHEMA).equal_values("i") == (3,)
    assert parse("(s > 'a' AND i IN (1, 2)) AND b", SCHEMA).equal_values("i") == (1, 2)
    assert parse((pc.field("i") == 3) & pc.field("b"), SCHEMA).equal_values("i") == (3,)
    for open_condition in ("i = 3 OR s = 'a'", "i > 3", "NOT i = 3", "s = 'a'", "i IN (1, NULL)"):
        assert parse(open_condition, SCHEMA).equal_values("i") is None


def test_predicates_travel_to_other_processes() -> None:
    for given in (
        "i = 3 AND s LIKE 'a%'",
        (pc.field("i") == 3) & pc.starts_with(pc.field("s"), "a"),
    ):
        there = pickle.loads(pickle.dumps(parse(given, SCHEMA)))
        assert there.columns == {"i", "s"}
        assert there.equal_values("i") == (3,)
        table = pa.table({"i": pa.array([3, 3, 4], pa.int32()), "s": ["ab", "b", "a"]})
        assert table.filter(there.expression).num_rows == 1


SPELLINGS = [
    ("s = 'it''s'", ["it's"]),
    ('s = "it\'s"', ["it's"]),
    ("s = 'it\\'s'", ["it's"]),
    ("`s` = 'a.b'", ["a.b"]),
    ("s LIKE 'a!_%' ESCAPE '!'", ["a_b"]),
    ("s LIKE 'a\\\\_%'", ["a_b"]),
    ("s NOT LIKE 'a%'", ["it's"]),
    ("s <=> 'a.b'", ["a.b"]),
    ("(((s = 'a.b')))", ["a.b"]),
    ("`we ird` = 1", ["a.b"]),
]


@pytest.mark.parametrize(("text", "expected"), SPELLINGS)
def test_spelling_is_that_of_spark(text: str, expected: list[str]) -> None:
    arrow = pa.schema([pa.field("s", pa.string(), False), ("we ird", pa.int32())])
    rows = pa.table({"s": ["it's", "a.b", "a_b"], "we ird": pa.array([0, 1, 2], pa.int32())})
    predicate = parse(text, new_schema(arrow, primary_key=["s"]))
    assert rows.filter(predicate.expression)["s"].to_pylist() == expected


SHORT = [
    ("day", "DATE '2024-2-9'", "DATE '2024-02-09'"),
    ("day", "'2024-2-9'", "'2024-02-09'"),
    ("t", "TIMESTAMP '2024-2-9 9:05'", "'2024-02-09 09:05'"),
    ("t", "TIMESTAMP '2024-2-9 9:5:1.5'", "'2024-02-09 09:05:01.500'"),
    ("t", "'2024-2-9T9:05:01'", "'2024-02-09 09:05:01'"),
]


@pytest.mark.parametrize(("name", "short", "long"), SHORT)
def test_parts_of_dates_and_times_may_be_of_one_digit_as_in_spark(
    name: str, short: str, long: str
) -> None:
    assert parse(f"{name} = {short}", SCHEMA).tree == parse(f"{name} = {long}", SCHEMA).tree


WRONG = [
    ("nope = 1", "nope"),
    ("i = 'x'", "'i'"),
    ("s = 1", "'s'"),
    ("b = 1", "'b'"),
    ("t = 5", "'t'"),
    ("day = '2024-13-01'", "'day'"),
    ("day = TIMESTAMP '2024-01-01 10:00:00+02:00'", "'day'"),
    ("t = '2024-01-01 00:00:00+02:00'", "'t'"),
    ("i LIKE 'a%'", "'i'"),
    ("i LIKE NULL", "'i'"),
    ("day LIKE '2024-02-29'", "'day'"),
    ("NOT t LIKE '2024-02-29'", "'t'"),
    ("s LIKE 5", "'s'"),
    ("i", "'i'"),
    ("i IN (1, 'x')", "'i'"),
    ("s = TIMESTAMP '2024-01-01'", "'s'"),
    ("day = '2024-2-30'", "'day'"),
    ("day = DATE '2024-W01-1'", "'day'"),
    ("i = -TRUE", "filter"),
    ("i BETWEEN SYMMETRIC 2 AND 1", "filter"),
    ("NOT (b OR i BETWEEN SYMMETRIC 2 AND 1)", "filter"),
    ("t = CAST('2024-01-01' AS TIMESTAMP(3))", "filter"),
    ("t = TRY_CAST('x' AS TIMESTAMP)", "filter"),
    ("day = CAST('x' AS DATE DEFAULT '2024-01-01' ON CONVERSION ERROR)", "filter"),
    ("i IN UNNEST(l)", "filter"),
    ("i IN (SELECT 1)", "filter"),
    ("i = l", "filter"),
    ("i + 1 = 2", "filter"),
    ("abs(i) = 2", "filter"),
    ("i = ", "filter"),
    ("i = 1; i = 2", "filter"),
    ("", "filter"),
    ("SELECT 1", "filter"),
    ("i = 1 AND nope IS NULL", "nope"),
    (pc.field("nope") == 1, "nope"),
    (pc.field("s") > 1, "filter"),
    (pc.field("i") + 1, "filter"),
    (pc.field(0) == 1, "filter"),
    (5, "filter"),
]


@pytest.mark.parametrize(("given", "subject"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_filters_say_what_is_wrong(given: Any, subject: str) -> None:
    with pytest.raises(InvalidError) as raised:
        parse(given, SCHEMA)
    assert subject in raised.value.subject


def test_nested_columns_may_be_asked_for_null_only() -> None:
    arrow = pa.schema([pa.field("k", pa.int32(), False), ("a", pa.list_(pa.int32()))])
    schema = new_schema(arrow, primary_key=["k"])
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "a": [[1], None]})
    assert rows.filter(parse("a IS NULL", schema).expression)["k"].to_pylist() == [2]
    with pytest.raises(InvalidError, match="IS NULL"):
        parse("a = 1", schema)


@pytest.mark.parametrize("name", COLUMNS)
def test_comparables_of_literals_are_those_of_the_columns_values(name: str) -> None:
    column = SCHEMA.field(name)
    for value in COLUMNS[name][1]:
        found = literal(column, value)
        scalar = pa.array([value], arrow_type(column.type))[0]
        assert found == scalar_comparable(column.type, scalar)
        assert scalar_of(column.type, found).cast(scalar.type) == scalar or value != value
