"""Random tables of a source: keys, columns, and values as texts that the server reads.

A `ValueType` says how a type is written in SQL, draws a value, selects it, and brings a selected and a target's value
to one form, so that both can be compared. Its rules are the specification's, not the code's.
"""

from __future__ import annotations

import datetime
import random
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Draw = Callable[[random.Random], str]


def _same(value: Any) -> Any:
    return value


def _float4(value: Any) -> Any:
    return None if value is None else repr(struct.unpack("f", struct.pack("f", value))[0])


def _float8(value: Any) -> Any:
    return None if value is None else repr(value)


def _list(value: Any) -> Any:
    return None if value is None else tuple(value)


@dataclass(frozen=True)
class ValueType:
    """A type. sql: as the catalog prints it. select: of a column {0}. form: of a value of either side."""

    sql: str
    draw: Draw
    select: str = "{0}"
    form: Callable[[Any], Any] = _same


def _text(rng: random.Random) -> str:
    """A short text, or one that lies out of line: hexadecimal digits do not get short enough."""
    if rng.random() < 0.3:
        return f"{rng.getrandbits(4 * 9000):09000x}"
    return rng.choice(("", "a", "Bß", "\\N", "it's", "日本", '{"q"}', "null", "x,y")) * rng.randint(
        1, 2
    )


def _bytes(rng: random.Random) -> str:
    size = 5000 if rng.random() < 0.3 else rng.randrange(4)
    return "\\x" + rng.randbytes(size).hex()


def _numbers(rng: random.Random) -> str:
    size = 3000 if rng.random() < 0.2 else rng.randrange(4)
    return "{" + ",".join(rng.choice(("NULL", str(rng.getrandbits(30)))) for _ in range(size)) + "}"


def _texts(rng: random.Random) -> str:
    return (
        "{"
        + ",".join(rng.choice(("NULL", '"a,b"', '"\\"q\\""', "x", '""')) for _ in range(3))
        + "}"
    )


def _whole(bits: int) -> Draw:
    return lambda rng: str(
        rng.choice((0, -(1 << bits - 1), (1 << bits - 1) - 1, rng.randint(-99, 99)))
    )


def _day(rng: random.Random) -> datetime.date:
    return datetime.date(2000, 1, 1) + datetime.timedelta(days=rng.randint(-40000, 40000))


def _moment(rng: random.Random) -> str:
    return f"{_day(rng)} 0{rng.randrange(10)}:10:00.{rng.randrange(1_000_000):06}"


def _float(rng: random.Random) -> str:
    return rng.choice(("NaN", "Infinity", "-0", "1.1", "3e-20", str(rng.random())))


def _small(rng: random.Random) -> str:
    return str(rng.randint(-99, 99))


TYPES: Final = {
    each.sql: each
    for each in (
        ValueType("boolean", lambda rng: rng.choice("tf")),
        ValueType("smallint", _small),
        ValueType("integer", _small),
        ValueType("bigint", _whole(64)),
        ValueType("real", _float, form=_float4),
        ValueType("double precision", _float, form=_float8),
        ValueType("text", _text),
        ValueType("character varying(10)", lambda rng: rng.choice(("", "ab", "äöü", "0123456789"))),
        ValueType("character varying(30)", lambda rng: rng.choice(("", "ab", "0123456789" * 3))),
        ValueType("character(5)", lambda rng: rng.choice(("ab", "a b", "")), "rtrim({0}::text)"),
        ValueType(
            "numeric(10,2)", lambda rng: f"{rng.randint(-(10**7), 10**7)}.{rng.randrange(100):02}"
        ),
        ValueType("numeric(14,2)", lambda rng: f"{rng.randint(-(10**11), 10**11)}.5"),
        ValueType("numeric", lambda rng: rng.choice(("NaN", "1e30", "0.10", "-7")), "{0}::text"),
        ValueType("date", lambda rng: str(_day(rng))),
        ValueType("time(3) without time zone", lambda rng: f"12:00:0{rng.randrange(9)}.125"),
        ValueType("timestamp(3) without time zone", _moment),
        ValueType("timestamp without time zone", _moment),
        ValueType("timestamp with time zone", lambda rng: f"{_moment(rng)}+02"),
        ValueType("bytea", _bytes),
        ValueType("integer[]", _numbers, form=_list),
        ValueType("text[]", _texts, form=_list),
        ValueType(
            "jsonb",
            lambda rng: f'{{"a": {rng.randrange(9)}, "b": "{"z" * rng.choice((1, 9))}"}}',
            "{0}::text",
        ),
        ValueType("uuid", lambda rng: str(uuid.UUID(int=rng.getrandbits(128))), "{0}::text"),
        ValueType(
            "interval",
            lambda rng: f"{rng.randrange(20)} days {rng.randrange(9)} hours",
            "{0}::text",
        ),
        ValueType("mood", lambda rng: rng.choice(("glad", "so so", "sad"))),
    )
}
# A wider type of a column, and the types whose values are another's after it.
WIDER: Final = {
    "smallint": "integer",
    "integer": "bigint",
    "real": "double precision",
    "character varying(10)": "character varying(30)",
    "character varying(30)": "text",
    "numeric(10,2)": "numeric(14,2)",
    "timestamp(3) without time zone": "timestamp without time zone",
}
# An expression that changes values and keeps the type: the log says nothing new.
REWRITTEN: Final = {
    "text": "upper({0})",
    "smallint": "{0} / 2",
    "integer": "{0} / 2",
    "boolean": "NOT {0}",
    "date": "{0} + 1",
}


def _uuids(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def _days(number: int) -> str:
    return str(datetime.date(1969, 12, 20) + datetime.timedelta(days=number))


# The columns of a key with the text of each for a number from 0.
KEYS: Final[tuple[dict[str, tuple[str, Callable[[int], str]]], ...]] = (
    {"id": ("integer", lambda number: str(number - 10))},
    {"id": ("bigint", lambda number: str((number - 10) * 10**17))},
    {"id": ("text", lambda number: f"Key {number % 7}{'é' * (number % 3)}/{number}")},
    {"id": ("uuid", _uuids)},
    {"id": ("date", _days)},
    {
        "id": (
            "timestamp with time zone",
            lambda number: f"{_days(number)} 00:00:00.000{number % 10}+03",
        )
    },
    {
        "id": ("integer", lambda number: str(number // 4 - 2)),
        "part": ("text", lambda number: "abcd"[number % 4]),
    },
    {
        "part": ("text", lambda number: "dcba"[number % 4]),
        "id": ("smallint", lambda number: str(number // 4)),
    },
)
KEY_NUMBERS: Final = 30


@dataclass(frozen=True)
class DrawnTable:
    """A table. key: the columns of the target's key, with their texts by number. identity: default, full or index."""

    name: str
    key: dict[str, tuple[str, Callable[[int], str]]]
    columns: dict[str, str]
    identity: str

    def statements(self) -> list[str]:
        """Return the SQL that makes it. With the identity index the primary key is another column."""
        key = [f"{name} {kind} not null" for name, (kind, _) in self.key.items()]
        others = [f"{name} {kind}" for name, kind in self.columns.items()]
        names = ", ".join(self.key)
        if self.identity != "index":
            made = f"create table {self.name} ({', '.join([*key, *others])}, primary key ({names}))"
            full = f"alter table {self.name} replica identity full"
            return [made, full] if self.identity == "full" else [made]
        serial = "pk bigint generated by default as identity primary key"
        return [
            f"create table {self.name} ({', '.join([serial, *key, *others])})",
            f"create unique index {self.name}_other on {self.name} ({names})",
            f"alter table {self.name} replica identity using index {self.name}_other",
        ]


def draw_table(rng: random.Random, name: str) -> DrawnTable:
    """Draw a table of a random key and 2 to 6 more columns."""
    columns = {f"c{at}": rng.choice(list(TYPES)) for at in range(rng.randint(1, 5))}
    return DrawnTable(
        name, rng.choice(KEYS), columns | {"big": "text"}, rng.choice(("default", "full", "index"))
    )
