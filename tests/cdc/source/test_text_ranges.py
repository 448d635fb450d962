"""Ranges of text keys: each key lies in one range, for the server and for Arrow alike, and a range has few rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.dataset as ds

from tests.cdc.values.read_values import random_text
from tests.support.databases.postgres_server import PostgresServer
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.session import session
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.text_ranges import text_ranges


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
        ranges = text_ranges(server.dsn, "test", table_of(server, "texts"), 50)
        assert len(ranges) == len(keys) // 50 + 1
        arrow = ds.dataset(pa.table({"k": keys}))
        seen: list[str] = []
        for each in ranges:
            statement = f'select "the key" from texts where {each.predicate}'
            by_server = {key for (key,) in cursor.execute(statement.encode())}
            by_arrow = arrow.to_table(filter=each.condition("k"))["k"].to_pylist()
            assert by_server == set(by_arrow)
            assert len(by_server) <= 50
            seen += by_arrow
        assert sorted(seen) == keys


def test_a_key_of_two_columns_may_repeat_its_first_one(server: PostgresServer) -> None:
    server.execute(
        "drop table if exists pairs",
        "create table pairs (a varchar(9), b int, primary key (a, b))",
        "insert into pairs select case when i < 90 then 'same' else 'x' || i end, i from generate_series(1, 99) as i",
    )
    ranges = text_ranges(server.dsn, "test", table_of(server, "pairs"), 20)
    counts = [
        server.execute(f"select count(*) from pairs where {each.predicate}")[0][0]
        for each in ranges
    ]
    assert counts == [0, 99]


def test_other_keys_have_no_ranges_of_texts(server: PostgresServer) -> None:
    server.execute("drop table if exists n", "create table n (id numeric primary key)")
    assert text_ranges(server.dsn, "test", table_of(server, "n"), 5) == ()
