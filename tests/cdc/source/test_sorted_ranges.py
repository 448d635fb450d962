"""Ranges of sorted keys: each key lies in one range, for the server and for Arrow alike, and a range has few rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.cdc.values.read_values import random_text
from tests.support.databases.postgres_server import PostgresServer
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.session import session
from widetable_cdc.source.sorted_ranges import sorted_ranges
from widetable_cdc.source.source_table import SourceTable


def table_of(server: PostgresServer, name: str) -> SourceTable:
    with session(server.dsn, "test") as connection:
        return source_tables(connection, [f"public.{name}"])["public", name]


def test_each_key_lies_in_one_range_by_the_server_and_by_arrow(
    server: PostgresServer, rng: random.Random
) -> None:
    keys = sorted({random_text(rng) + rng.choice(("", "'", "\\")) for _ in range(900)} | {""})
    server.execute("drop table if exists texts", 'create table texts ("the key" text primary key)')
    with session(server.dsn, "test") as connection, connection.cursor() as cursor:
        with cursor.copy("copy texts from stdin") as rows:
            for key in rng.sample(keys, len(keys)):
                rows.write_row((key,))
        ranges = sorted_ranges(server.dsn, "test", table_of(server, "texts"), 50, pa.string())
        assert len(ranges) == len(keys) // 50 + 1
        arrow = ds.dataset(pa.table({"k": keys}))
        seen: list[str] = []
        for each in ranges:
            statement = f'select "the key" from texts where {each.predicate}'
            by_server = {key for (key,) in cursor.execute(statement.encode())}
            by_arrow = arrow.to_table(filter=each.condition(pa.field("k", pa.string())))[
                "k"
            ].to_pylist()
            assert by_server == set(by_arrow)
            assert len(by_server) <= 50
            seen += by_arrow
        assert sorted(seen) == keys


NUMBERS = "(i - 150)::numeric / 7 * case i % 3 when 0 then 1000000 else 1 end"
KEYS = {
    "exact numbers": ("numeric", NUMBERS, pa.string()),
    "decimals": (
        "numeric(20, 3)",
        f"case i when 7 then 'NaN' else {NUMBERS} end",
        pa.decimal128(20, 3),
    ),
    "bytes": (
        "bytea",
        "decode(md5(i::text) || repeat('00ff', i % 2), 'hex')",
        pa.binary(),
    ),
    "enums": ("mood", "(array['sad', 'Happy', 'ok'])[i % 3 + 1]::mood", pa.string()),
}


@pytest.mark.parametrize("name", KEYS)
def test_each_key_of_other_types_lies_in_one_range(server: PostgresServer, name: str) -> None:
    kind, values, kept = KEYS[name]
    server.execute(
        "drop table if exists others",
        "drop type if exists mood",
        "create type mood as enum ('sad', 'ok', 'Happy')",
        f"create table others (k {kind}, i int, primary key (k, i))",
        f"insert into others select {values}, i from generate_series(1, 300) as i",
    )
    ranges = sorted_ranges(server.dsn, "test", table_of(server, "others"), 20, kept)
    assert len(ranges) >= (3 if name == "enums" else 15)
    rows = server.execute("select i, k::text from others")
    shown = {
        i: bytes.fromhex(text[2:]) if name == "bytes" else text for i, text in rows if text != "NaN"
    }
    keys = pa.array(list(shown.values())).cast(kept)
    arrow = ds.dataset(pa.table({"i": list(shown), "k": keys}))
    seen: list[int] = []
    for each in ranges:
        by_server = {i for (i,) in server.execute(f"select i from others where {each.predicate}")}
        condition = each.condition(pa.field("k", kept))
        by_arrow = arrow.to_table(filter=condition)["i"].to_pylist()
        assert by_server - {7} == set(by_arrow) - {7}
        seen += by_arrow
    assert sorted(seen) == sorted(shown)


def test_a_key_of_two_columns_may_repeat_its_first_one(server: PostgresServer) -> None:
    server.execute(
        "drop table if exists pairs",
        "create table pairs (a varchar(9), b int, primary key (a, b))",
        "insert into pairs select case when i < 90 then 'same' else 'x' || i end, i from generate_series(1, 99) as i",
    )
    ranges = sorted_ranges(server.dsn, "test", table_of(server, "pairs"), 20, pa.string())
    counts = [
        server.execute(f"select count(*) from pairs where {each.predicate}")[0][0]
        for each in ranges
    ]
    assert counts == [0, 99]


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("numeric", pa.decimal128(20, 3)),
        ("numeric(20, 5)", pa.decimal128(20, 3)),
        ("interval", pa.string()),
        ("bytea", pa.string()),
    ],
)
def test_keys_without_a_common_order_have_no_ranges(
    server: PostgresServer, kind: str, kept: pa.DataType
) -> None:
    server.execute("drop table if exists n", f"create table n (id {kind} primary key)")
    assert sorted_ranges(server.dsn, "test", table_of(server, "n"), 5, kept) == ()
