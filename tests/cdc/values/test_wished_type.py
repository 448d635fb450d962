"""Wished types: the values are those of the server's own cast, by the log and by the copy; other pairs are refused."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.cdc.values.read_values import read_values
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from widetable import InvalidError
from widetable_cdc.values.source_type import SourceType
from widetable_cdc.values.wished_type import wished_type

INT2, INT4, FLOAT4 = SourceType(21, "int2"), SourceType(23, "int4"), SourceType(700, "float4")
NUMERIC, TIME, TEXT = SourceType(1700, "numeric"), SourceType(1083, "time"), SourceType(25, "text")


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def literals(rng: random.Random, sql_type: str) -> list[str | None]:
    made: list[str | None] = [None]
    for _ in range(200):
        if sql_type == "float4":
            made.append(rng.choice(("NaN", "-Infinity", "0.1", f"{rng.uniform(-9, 9):.7g}")))
        elif sql_type.startswith("numeric"):
            made.append(f"{rng.randint(-(10**9), 10**9)}.{rng.randrange(1000):03}")
        else:
            made.append(str(rng.randint(-32768, 32767)))
    return made


@pytest.mark.parametrize(
    ("sql_type", "wish", "target", "sql_target"),
    [
        ("int2", "int", "INT", "int4"),
        ("int2", " BigInt ", "BIGINT", "int8"),
        ("int4", "BIGINT", "BIGINT", "int8"),
        ("float4", "double", "DOUBLE", "float8"),
        ("numeric", "DECIMAL( 38,2 )", "DECIMAL(38, 2)", "numeric(38, 2)"),
        ("numeric(14, 3)", "decimal(12)", "DECIMAL(12, 0)", "numeric(12, 0)"),
    ],
)
def test_values_are_those_of_the_cast_of_the_server(
    database: PostgresServer, rng: random.Random, sql_type: str, wish: str, target: str, sql_target: str
) -> None:  # fmt: skip
    texts = literals(rng, sql_type)
    read = read_values(database, sql_type, texts, wish=wish)
    assert read.type.target == target
    with psycopg.connect(database.dsn) as connection:
        values = f"select v::{sql_type}::{sql_target} from unnest(%s::text[])"
        statement = f"{values} with ordinality as t (v, n) order by n"
        rows = connection.execute(statement.encode(), (texts,)).fetchall()
    expected = [str(value) for (value,) in rows]
    for cast in (read.logged, read.copied):
        assert not cast.bad.any()
        assert [str(value) for value in cast.values.to_pylist()] == expected
        assert cast.values.type == read.type.arrow


STRINGS = {
    "numeric(10, 2)": ["NaN", "1.50"],
    "date": ["infinity", "10000-01-01", "0044-03-15 BC"],
    "timestamp": ["-infinity", "294276-12-31 23:59:59.999999"],
    "int4": ["7"],
    "time(2)": ["24:00:00"],
    "bytea": ["\\x00ff"],
    "int4[]": ["{{1,2},{3,NULL}}"],
}


@pytest.mark.parametrize("sql_type", STRINGS)
def test_a_string_has_the_text_of_the_server_whatever_the_value_is(
    database: PostgresServer, sql_type: str
) -> None:
    read = read_values(database, sql_type, [*STRINGS[sql_type], None], wish="string")
    for cast in (read.logged, read.copied):
        assert not cast.bad.any()
        assert cast.values.to_pylist() == read.texts.to_pylist()
    assert read.texts.to_pylist()[:1] == STRINGS[sql_type][:1]


@pytest.mark.parametrize(
    ("source", "wish", "expected"),
    [
        (INT4, "SMALLINT", "INT or BIGINT or STRING"),
        (INT4, "DOUBLE", "INT or BIGINT or STRING"),
        (TEXT, "INT", "STRING"),
        (NUMERIC, "DECIMAL(39, 2)", "STRING or DECIMAL"),
        (NUMERIC, "DECIMAL(2, 3)", "STRING or DECIMAL"),
        (TIME, "TIME(2)", r"TIME\(3\)"),
        (FLOAT4, "DECIMAL(10, 2)", "FLOAT or DOUBLE or STRING"),
        (INT2, "", "SMALLINT or INT or BIGINT or STRING"),
    ],
)
def test_other_pairs_are_refused_with_what_there_is(
    source: SourceType, wish: str, expected: str
) -> None:
    with pytest.raises(InvalidError, match=f"{source.name}.*{expected}"):
        wished_type(source, wish)


def test_the_type_without_a_wish_may_be_written() -> None:
    assert wished_type(INT4, "INT").target == "INT"
    assert wished_type(NUMERIC, "decimal(38,18)", decimal="38,18").target == "DECIMAL(38, 18)"
