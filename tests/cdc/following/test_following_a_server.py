"""Cases of the specification with a real server, from its log to the rows of a target, and random statements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cdc.following.followed_source import FollowedSource, FollowedTable
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from widetable import Catalog
from widetable_cdc.evolution.actions import CopyAgain, Park, Verify

HUGE = "convert_from(decode(string_agg(md5(g::text), ''), 'escape'), 'UTF8') FROM generate_series(1, 3000) AS g"

BIG = HUGE.replace("3000", "300")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


class Source:
    """A database of its own with table t, that a job follows."""

    def __init__(self, server: PostgresServer, database: str, catalog: Catalog) -> None:
        server.execute(f"CREATE DATABASE {database}")
        self._dsn = server.dsn_of(database)
        self._catalog = catalog
        self._slot = database
        self.job: FollowedSource | None = None

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def follow(self, *names: str) -> FollowedTable:
        self.job = FollowedSource(self._dsn, self._catalog, self._slot, *names)
        return self.job.tables[names[0]]

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.run(f"SELECT {columns} FROM t"))

    def close(self) -> None:
        if self.job is not None:
            self.job.close()


@pytest.fixture
def source(
    server: PostgresServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Source]:
    name = f"s{abs(hash(request.node.nodeid)) % 10**9}"
    source = Source(server, name, Catalog(tmp_path))
    yield source
    source.close()


def round_of(source: Source) -> None:
    assert source.job is not None
    source.job.round()


def shown(followed: FollowedTable, *columns: str) -> list[tuple[Any, ...]]:
    names = list(columns) or [c.name for c in followed.form.table.columns]
    return sorted(
        tuple(row[name] for name in names) for row in followed.table.scan().to_arrow().to_pylist()
    )


def changes(followed: FollowedTable, after: int) -> list[tuple[str, int]]:
    followed.table.wait_for_compactions()
    to = followed.target.position() or 0
    read = followed.table.changes(after, to, mode="barrier").to_pylist()
    return sorted((row["_row_kind"], row["id"]) for row in read)


T = "CREATE TABLE t (id int PRIMARY KEY, name varchar(20), big text)"
ROWS = f"INSERT INTO t SELECT id, 'n' || id, (SELECT {HUGE}) FROM generate_series(1, 4) AS id"


def test_case_6_a_constant_default_reaches_old_rows(source: Source) -> None:
    source.run(T, ROWS)
    t = source.follow("t")
    source.run("UPDATE t SET name = 'x' WHERE id = 1")
    round_of(source)
    before = t.target.position()
    assert before is not None
    source.run("ALTER TABLE t ADD COLUMN extra int DEFAULT 7", "INSERT INTO t VALUES (9, 'nine')")
    round_of(source)
    assert shown(t, "id", "extra") == [(1, 7), (2, 7), (3, 7), (4, 7), (9, 7)]
    assert shown(t) == source.rows()
    assert [each for each in changes(t, before) if each[0] != "-U"] == [
        ("+I", 9),
        ("+U", 1),
        ("+U", 2),
        ("+U", 3),
        ("+U", 4),
    ]


def test_case_6_in_one_round_with_changes_before_and_after(source: Source) -> None:
    source.run(T, ROWS)
    t = source.follow("t")
    source.run(
        "UPDATE t SET name = 'before' WHERE id = 1",
        "INSERT INTO t VALUES (5, 'before')",
        "ALTER TABLE t ADD COLUMN extra int DEFAULT 7",
        "UPDATE t SET name = 'after', extra = NULL WHERE id = 2",
        "UPDATE t SET extra = 8 WHERE id = 3",
    )
    round_of(source)
    assert shown(t) == source.rows()
    assert shown(t, "id", "extra") == [(1, 7), (2, None), (3, 8), (4, 7), (5, 7)]


def test_case_7_a_volatile_default_is_copied_again(source: Source) -> None:
    source.run(T, ROWS)
    t = source.follow("t")
    source.run("ALTER TABLE t ADD COLUMN r float8 DEFAULT random()", "INSERT INTO t VALUES (9)")
    round_of(source)
    assert shown(t) == source.rows()
    assert CopyAgain in map(type, t.actions)


def test_case_8_a_big_value_is_kept_wherever_its_key_goes(source: Source) -> None:
    source.run(T, ROWS)
    t = source.follow("t")
    source.run("UPDATE t SET name = 'x' WHERE id = 1", "UPDATE t SET id = 20 WHERE id = 2")
    round_of(source)
    assert shown(t) == source.rows()
    # Insert and move in one transaction, and a chain of moves.
    source.run(
        f"BEGIN; INSERT INTO t SELECT 7, 'y', (SELECT {HUGE}); UPDATE t SET id = 8 WHERE id = 7; COMMIT",
        "UPDATE t SET id = 30 WHERE id = 20",
        "UPDATE t SET id = 40, name = NULL WHERE id = 30",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "UPDATE t SET name = 'full' WHERE id = 3",
        "UPDATE t SET id = 50 WHERE id = 4",
    )
    round_of(source)
    assert shown(t) == source.rows()
    assert [len(row[2] or "") for row in shown(t)] == [96_000] * 5


def test_case_9_a_rename_keeps_the_field(source: Source) -> None:
    source.run(T, ROWS)
    t = source.follow("t")
    ids = {each.name: each.id for each in t.table.schema.fields}
    source.run(
        "UPDATE t SET name = 'before' WHERE id = 3",
        "ALTER TABLE t RENAME COLUMN name TO label",
        "UPDATE t SET label = 'x' WHERE id = 1",
    )
    round_of(source)
    assert shown(t, "id", "label", "big") == source.rows()
    assert {each.name: each.id for each in t.table.schema.fields}["label"] == ids["name"]
    source.run(
        "BEGIN; ALTER TABLE t DROP COLUMN label; ALTER TABLE t ADD COLUMN label int; COMMIT",
        "UPDATE t SET label = 5 WHERE id = 2",
    )
    round_of(source)
    assert shown(t, "id", "big", "label") == source.rows()
    assert {each.name: each.id for each in t.table.schema.fields}["label"] == 3
    assert not {CopyAgain, Verify, Park} & set(map(type, t.actions))


def test_two_names_that_are_swapped_are_two_renames(source: Source) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text)", "INSERT INTO t VALUES (1, 'a', 'b')"
    )
    t = source.follow("t")
    swap = "BEGIN; ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b; COMMIT"
    source.run("INSERT INTO t VALUES (2, 'a', 'b')", swap, "INSERT INTO t (id, a) VALUES (3, 'b')")
    round_of(source)
    assert shown(t, "id", "a", "b") == source.rows("id, a, b")
    assert not {CopyAgain, Verify, Park} & set(map(type, t.actions))


def test_names_that_the_catalog_has_left_are_copied_again(source: Source) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text)", "INSERT INTO t VALUES (1, 'a', 'b')"
    )
    t = source.follow("t")
    source.run(
        "ALTER TABLE t RENAME a TO c",
        "INSERT INTO t VALUES (2, 'a', 'b')",
        "ALTER TABLE t RENAME b TO a",
        "ALTER TABLE t RENAME c TO b",
        "INSERT INTO t VALUES (3, 'a', 'b')",
    )
    round_of(source)
    assert shown(t, "id", "a", "b") == source.rows("id, a, b")


def test_case_10_a_new_type_of_the_key_parks_the_table_alone(source: Source) -> None:
    source.run(T, ROWS, "CREATE TABLE u (id int PRIMARY KEY)")
    t = source.follow("t", "u")
    source.run(
        "ALTER TABLE t ALTER COLUMN id TYPE bigint",
        "INSERT INTO t VALUES (9)",
        "INSERT INTO u VALUES (1)",
    )
    round_of(source)
    (park,) = t.actions
    assert isinstance(park, Park)
    assert "id INT" in park.reason
    assert "id BIGINT" in park.reason
    assert source.job is not None
    assert shown(source.job.tables["u"]) == [(1,)]


def test_case_11_a_truncate_reaches_readers(source: Source) -> None:
    source.run(T, ROWS)
    t = source.follow("t")
    source.run("UPDATE t SET name = 'x' WHERE id = 1")
    round_of(source)
    before = t.target.position()
    assert before is not None
    source.run("TRUNCATE t", "INSERT INTO t VALUES (2, 'again')")
    round_of(source)
    assert shown(t) == source.rows() == [(2, "again", None)]
    # The log explains the new file of the truncated table, so no copy follows.
    deleted = [each for each in changes(t, before) if each[0] == "-D"]
    assert sorted(deleted) == [("-D", 1), ("-D", 3), ("-D", 4)]


def test_cases_14_and_15_nulls_and_values_that_no_type_holds(source: Source) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2), name text)")
    t = source.follow("t")
    source.run(
        "INSERT INTO t VALUES (1, 2.5, 'a'), (2, 'NaN', 'b')",
        "UPDATE t SET name = NULL WHERE id = 1",
    )
    round_of(source)
    assert shown(t) == [(1, Decimal("2.50"), None)]
    assert source.job is not None
    assert source.job.errors.count == 1
    source.run("UPDATE t SET v = 4.1 WHERE id = 2")
    round_of(source)
    assert shown(t) == source.rows()


@pytest.mark.parametrize(
    "alter",
    [
        "ALTER TABLE t ALTER COLUMN n TYPE bigint USING n * 100",
        "ALTER TABLE t ALTER COLUMN v TYPE text USING upper(v)",
        "ALTER TABLE t ALTER COLUMN j TYPE jsonb",
    ],
)
def test_values_that_are_rewritten_without_an_event_are_verified(
    source: Source, alter: str
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, n int, v text, j json)")
    source.run("INSERT INTO t VALUES (1, 1, 'a', '{\"b\":  1}'), (2, 2, 'b', '[]')")
    t = source.follow("t")
    source.run(alter, "UPDATE t SET n = 5 WHERE id = 2")
    round_of(source)
    texts = "id, n, v, j::text"
    assert shown(t) == source.rows(texts)
    assert Verify in map(type, t.actions)


def test_a_type_that_is_wider_without_a_rewrite_is_widened_alone(source: Source) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2), m timestamp(3), s varchar(3))")
    source.run("INSERT INTO t VALUES (1, 1.5, '2026-01-02 03:04:05.678', 'abc')")
    t = source.follow("t")
    source.run(
        "ALTER TABLE t ALTER v TYPE numeric(12,2), ALTER m TYPE timestamp(6), ALTER s TYPE text",
        "INSERT INTO t VALUES (2, 1234567890.25, '2026-01-02 03:04:05.678901', 'abcdef')",
    )
    round_of(source)
    assert shown(t) == source.rows()
    assert {type(each).__name__ for each in t.actions} == {"WidenType"}


def statement(draw: random.Random, columns: list[str]) -> str:
    key, other = draw.randrange(1, 12), draw.randrange(1, 12)
    value = draw.choice(["NULL", "''", "'é'", f"'{draw.random()}'", f"(SELECT {BIG})"])
    column = draw.choice(columns)
    return draw.choice(
        [
            f"INSERT INTO t (id, {column}) VALUES ({key}, {value}) ON CONFLICT DO NOTHING",
            f"UPDATE t SET {column} = {value} WHERE id = {key}",
            f"UPDATE t SET id = {other} WHERE id = {key} AND NOT EXISTS (SELECT 1 FROM t WHERE id = {other})",
            f"DELETE FROM t WHERE id = {key}",
            f"DELETE FROM t WHERE id = {key}; INSERT INTO t (id, {column}) VALUES ({key}, {value})",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_random_statements_leave_the_rows_of_the_source(
    source: Source, rng: random.Random, identity: str
) -> None:
    wide = T.replace("varchar(20)", "text")
    source.run(wide, ROWS, f"ALTER TABLE t REPLICA IDENTITY {identity}")
    t = source.follow("t")
    columns = ["name", "big"]
    for number in range(10):
        for _ in range(rng.randrange(1, 8)):
            parts = [statement(rng, columns) for _ in range(rng.randrange(1, 6))]
            source.run("BEGIN; " + "; ".join(parts) + "; COMMIT")
        if rng.random() < 0.3:
            added = f"c{number}"
            source.run(f"ALTER TABLE t ADD COLUMN {added} text DEFAULT 'of {number}'")
            columns.append(added)
        elif rng.random() < 0.2:
            source.run("TRUNCATE t")
        elif rng.random() < 0.2:
            old = rng.choice(columns)
            columns[columns.index(old)] = f"r{number}"
            source.run(f"ALTER TABLE t RENAME COLUMN {old} TO r{number}")
        if rng.random() < 0.7:
            # Without a change the log does not tell of the columns.
            source.run("INSERT INTO t (id) VALUES (99)", "DELETE FROM t WHERE id = 99")
            round_of(source)
            assert shown(t, "id", *columns) == source.rows(f"id, {', '.join(columns)}")
    assert t.table.audit().findings == ()
