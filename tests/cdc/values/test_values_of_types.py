"""Each type with random values on a real server: texts of the log and ADBC's copies become the same values, and these
are the values that psycopg has.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tests.cdc.values.read_values import ReadValues, random_text, read_values
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from widetable_cdc.values.text_cast import Cast

Literal = Callable[[random.Random], str]


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        server.execute("create type mood as enum ('ok', 'so, so', 'bäd', '')")
        server.execute("create type pair as (x int, y text)")
        server.execute("create domain price as numeric(10, 2)")
        server.execute("create domain fair_price as price check (value > -1e6)")
        yield server


def _integer(bits: int) -> Literal:
    edge = 1 << (bits - 1)
    return lambda rng: str(rng.choice((0, -1, edge - 1, -edge, rng.randint(-edge, edge - 1))))


def _float(digits: int) -> Literal:
    def literal(rng: random.Random) -> str:
        number = f"{rng.uniform(-10, 10):.{digits}e}"[: -len("e+00")] + f"e{rng.randint(-30, 30)}"
        return rng.choice(("0", "-0", "NaN", "Infinity", "-Infinity", number, number, number))

    return literal


def _decimal(precision: int, scale: int) -> Literal:
    def literal(rng: random.Random) -> str:
        digits = rng.randint(0, precision)
        return str(Decimal(rng.randint(0, 10**digits - 1) * rng.choice((1, -1))).scaleb(-scale))

    return literal


def _moment(rng: random.Random) -> datetime:
    span = datetime(9999, 12, 31, 23, 59, 59) - datetime(1, 1, 2)
    days, seconds = rng.randint(0, span.days - 1), rng.randint(0, 86_399)
    micros = rng.choice((0, 500_000, rng.randint(0, 999_999)))
    near = datetime(1970, 1, 1) + timedelta(rng.randint(-9, 9), seconds, micros)
    return rng.choice((near, datetime(1, 1, 2) + timedelta(days, seconds, micros)))


def _time(digits: int) -> Literal:
    def literal(rng: random.Random) -> str:
        moment = _moment(rng)
        return f"{moment:%H:%M:%S}" + f".{moment.microsecond:06}"[: digits + 1 if digits else 0]

    return literal


SCALARS: dict[str, tuple[str, Literal]] = {
    "bool": ("BOOLEAN", lambda rng: rng.choice("tf")),
    "int2": ("SMALLINT", _integer(16)),
    "int4": ("INT", _integer(32)),
    "int8": ("BIGINT", _integer(64)),
    "float4": ("FLOAT", _float(7)),
    "float8": ("DOUBLE", _float(16)),
    "numeric(10, 2)": ("DECIMAL(10, 2)", _decimal(10, 2)),
    "numeric(38, 0)": ("DECIMAL(38, 0)", _decimal(38, 0)),
    "numeric(38, 38)": ("DECIMAL(38, 38)", _decimal(38, 38)),
    "numeric(5, 5)": ("DECIMAL(5, 5)", _decimal(5, 5)),
    "price": ("DECIMAL(10, 2)", _decimal(10, 2)),
    "fair_price": ("DECIMAL(10, 2)", _decimal(7, 2)),
    "text": ("STRING", random_text),
    "varchar(50)": ("STRING", random_text),
    "uuid": ("STRING", lambda rng: f"{rng.getrandbits(128):032x}"),
    "mood": ("STRING", lambda rng: rng.choice(("ok", "so, so", "bäd", ""))),
    "date": ("DATE", lambda rng: _moment(rng).date().isoformat()),
    "time(0)": ("TIME(0)", _time(0)),
    "time(3)": ("TIME(3)", _time(3)),
    "timestamp": ("TIMESTAMP(6)", lambda rng: _moment(rng).isoformat(" ")),
    "timestamp(3)": ("TIMESTAMP(3)", lambda rng: _moment(rng).isoformat(" ")),
    "timestamp(0)": ("TIMESTAMP(0)", lambda rng: _moment(rng).isoformat(" ")),
    "timestamp(5)": ("TIMESTAMP(5)", lambda rng: _moment(rng).isoformat(" ")),
    "timestamptz": (
        "TIMESTAMP_LTZ(6)",
        lambda rng: f"{_moment(rng)}+{rng.choice(('00', '09', '05:30'))}",
    ),
    "timestamptz(2)": ("TIMESTAMP_LTZ(2)", lambda rng: f"{_moment(rng)}-03"),
    "bytea": ("BYTES", lambda rng: "\\x" + rng.randbytes(rng.choice((0, 1, 7, 90))).hex()),
}
# Types that psycopg does not know, as elements: what it may take them for.
PYTHON = {"price": "numeric", "fair_price": "numeric", "mood": "text"}
# Types whose values are the texts that the server prints.
PRINTED: dict[str, Literal] = {
    "numeric": lambda rng: rng.choice(("1e30", "NaN", "Infinity", "-0.000", _decimal(60, 30)(rng))),
    "numeric(39, 2)": _decimal(39, 2),
    "numeric(5, -2)": lambda rng: str(rng.randint(-9999999, 9999999)),
    "numeric(3, 5)": lambda rng: f"0.00{rng.randint(0, 999):03}",
    "json": lambda rng: rng.choice(('{"a":  1}', "[]", "null", '"ß"')),
    "jsonb": lambda rng: rng.choice(('{"a":  1, "b": {}}', "[1,2]", "null", '"ß"')),
    "interval": lambda rng: (
        f"{rng.randint(-20, 20)} months {rng.randint(-9, 9)} days {rng.random()} s"
    ),
    "bit(3)": lambda rng: f"{rng.randrange(8):03b}",
    "inet": lambda rng: rng.choice(("1.2.3.4", "10.0.0.0/8", "::1")),
    "time": lambda rng: rng.choice(("24:00", _time(6)(rng), _time(2)(rng))),
    "time(4)": _time(6),
    "timetz": lambda rng: _time(6)(rng) + "+02",
    "point": lambda rng: f"({rng.random()},2)",
    "int4range": lambda rng: rng.choice(("[1,5)", "empty", "(,)")),
    "pair": lambda rng: rng.choice(("(,)", '(1,"a b")', "(2,)")),
    "box[]": lambda rng: "{(1,1),(0,0);(2,2),(0,0)}",
    "int2vector": lambda rng: "1 2 3",
    '"char"': lambda rng: rng.choice("xy"),
    "name": random_text,
    "money": lambda rng: f"{rng.randint(-99, 99)}.25",
    "tsvector": lambda rng: "'a' 'b'",
    "oid": _integer(8),
}


def _literals(rng: random.Random, literal: Literal) -> list[str | None]:
    return [None if rng.random() < 0.1 else literal(rng) for _ in range(60)] + [None]


def _plain(cast: Cast) -> list[Any]:
    cast.values.validate(full=True)
    assert not cast.bad.any()
    assert len(cast.bad) == len(cast.values)
    return [_comparable(value) for value in cast.values.to_pylist()]


def _comparable(value: Any) -> Any:
    """NaN equals itself, and the sign of zero counts."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc)
    return [_comparable(each) for each in value] if isinstance(value, list) else value


def _expected(sql_type: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_expected(sql_type.removesuffix("[]"), each) for each in value]
    if value is None:
        return None
    if sql_type == "float4":
        return float(np.float32(value))
    if sql_type == "uuid":
        return str(value)
    return value


def _check(read: ReadValues, sql_type: str, target: str) -> None:
    assert read.type.target == target
    logged, copied = _plain(read.logged), _plain(read.copied)
    assert logged == copied
    assert read.logged.values.type == read.copied.values.type == read.type.arrow
    assert logged == [_comparable(_expected(sql_type, value)) for value in read.values]


@pytest.mark.parametrize("sql_type", SCALARS)
def test_values_are_those_of_the_server(
    database: PostgresServer, rng: random.Random, sql_type: str
) -> None:
    target, literal = SCALARS[sql_type]
    read = read_values(database, sql_type, _literals(rng, literal))
    _check(read, sql_type, target)
    assert read.type.note is None


@pytest.mark.parametrize("sql_type", SCALARS)
def test_arrays_are_those_of_the_server(
    database: PostgresServer, rng: random.Random, sql_type: str
) -> None:
    target, literal = SCALARS[sql_type]

    def array(rng: random.Random) -> str:
        elements = [
            rng.choice((None, literal(rng), literal(rng))) for _ in range(rng.choice((0, 1, 3, 9)))
        ]
        bounds = f"[5:{4 + len(elements)}]=" if elements and rng.random() < 0.2 else ""
        return bounds + "{" + ",".join(map(_quoted, elements)) + "}"

    python = PYTHON.get(sql_type)
    literals = _literals(rng, array)
    read = read_values(database, f"{sql_type}[]", literals, python and f"{python}[]")
    _check(read, f"{sql_type}[]", f"ARRAY<{target}>")


def _quoted(element: str | None) -> str:
    if element is None:
        return "NULL"
    return '"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.mark.parametrize("sql_type", PRINTED)
def test_other_types_are_the_texts_that_the_server_prints(
    database: PostgresServer, rng: random.Random, sql_type: str
) -> None:
    literals = _literals(rng, PRINTED[sql_type])
    read = read_values(
        database,
        sql_type,
        [each and each[:20] if sql_type == "name" else each for each in literals],
    )
    assert read.type.target == "STRING"
    assert _plain(read.logged) == _plain(read.copied) == read.texts.to_pylist()


@pytest.mark.parametrize("sql_type", SCALARS)
def test_any_type_can_be_a_string(
    database: PostgresServer, rng: random.Random, sql_type: str
) -> None:
    literals = _literals(rng, SCALARS[sql_type][1])
    read = read_values(database, sql_type, literals, as_string=True)
    assert (read.type.target, read.type.note) == ("STRING", None)
    assert _plain(read.logged) == _plain(read.copied) == read.texts.to_pylist()


def test_padding_is_left_out(database: PostgresServer) -> None:
    for as_string in (False, True):
        literals = ["ab", "", " x ", None, "ßßßßß"]
        read = read_values(database, "char(5)", literals, as_string=as_string)
        assert _plain(read.logged) == _plain(read.copied) == ["ab", "", " x", None, "ßßßßß"]
    read = read_values(database, "char(3)[]", ['{"a",NULL,""}'])
    assert _plain(read.logged) == _plain(read.copied) == [["a", None, ""]]


YEARS = {
    "date": "2026-01-02",
    "timestamp": "2026-01-02 03:04:05",
    "timestamptz": "2026-01-02 03:04:05+00",
}


@pytest.mark.parametrize("sql_type", YEARS)
def test_infinity_and_years_of_more_digits_are_bad(database: PostgresServer, sql_type: str) -> None:
    good = YEARS[sql_type]
    late, early = f"1{good[:-2]}01" if sql_type == "date" else f"1{good}", f"{good} BC"
    first, last, behind = (
        good.replace("2026-01-02", day) for day in ("0001-01-01", "9999-12-31", "10000-01-01")
    )
    before = good.replace("2026-01-02", "0001-12-31") + " BC"
    edges = [first, last, before, behind]
    literals = [good, "infinity", None, "-infinity", late, early, *edges]
    read = read_values(database, sql_type, literals)
    for cast in (read.logged, read.copied):
        assert cast.bad.tolist() == [False, True, False, True, True, True, False, False, True, True]
        assert [value is None for value in cast.values.to_pylist()] == [
            False,
            *[True] * 5,
            False,
            False,
            True,
            True,
        ]
        assert "infinity" in cast.reason
    assert read.logged.values.equals(read.copied.values)
    string = read_values(database, sql_type, literals, as_string=True)
    assert _plain(string.logged) == _plain(string.copied) == string.texts.to_pylist()
    array = read_values(database, f"{sql_type}[]", ["{" + good + "}", "{" + good + ",infinity}"])
    assert array.logged.bad.tolist() == array.copied.bad.tolist() == [False, True]


def test_a_time_that_milliseconds_do_not_hold_is_bad(database: PostgresServer) -> None:
    literals = ["03:04:05.678", "03:04:05.678901", "24:00:00", "23:59:59.999"]
    read = read_values(database, "time", literals, wish="time(3)")
    for cast in (read.logged, read.copied):
        assert cast.bad.tolist() == [False, True, True, False]
        assert [str(value)[:12] for value in cast.values.to_pylist()] == [
            "03:04:05.678", "None", "None", "23:59:59.999",
        ]  # fmt: skip


def test_numeric_as_paimon_has_it_rounds_halves_away_from_zero(database: PostgresServer) -> None:
    literals = ["0.5", "1.005", "-1.005", "1.00499999999999999999999999", "99.99", "99.995", "NaN", "Infinity",
                "-100", "1e30", "0.00000000000000000000000000001", None]  # fmt: skip
    read = read_values(database, "numeric", literals, decimal="4,2")
    values = ["0.50", "1.01", "-1.01", "1.00", "99.99", *["None"] * 5, "0.00", "None"]
    for cast in (read.logged, read.copied):
        assert [str(value) for value in cast.values.to_pylist()] == values
        assert cast.bad.tolist() == [False] * 5 + [True] * 5 + [False] * 2
    assert read.type.target == "DECIMAL(4, 2)"
    long = read_values(database, "numeric", ["1" * 20 + "." + "5" * 40], decimal=" 38 , 18")
    assert str(long.logged.values[0]) == "1" * 20 + "." + "5" * 17 + "6"


def test_an_array_of_several_dimensions_is_bad(database: PostgresServer) -> None:
    read = read_values(database, "int[]", ["{1,2,NULL}", "{{1,2},{3,4}}", "{}", None])
    for cast in (read.logged, read.copied):
        assert cast.bad.tolist() == [False, True, False, False]
        assert cast.values.to_pylist() == [[1, 2, None], None, [], None]
        assert "one-dimensional" in cast.reason
