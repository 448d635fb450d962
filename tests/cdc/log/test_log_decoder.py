"""The decoder against a real server: random histories of tables are decoded as a slow decoder decodes them, their
replay gives the rows that the server has, and the plugin test_decoding tells of the same changes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.cdc.log.peeked_log import new_slot, peeked, told
from tests.cdc.log.slow_decoder import (
    UNCHANGED,
    Change,
    SlowDecoder,
    changes_of,
    form_of,
    transactions_of,
)
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from widetable_cdc.log.changes import Kind, OldRow
from widetable_cdc.log.log_decoder import LogDecoder

# Name of a table, its columns, and its replica identity.
TABLES = {
    "plain": ("id int primary key, name varchar(20), big text", "default"),
    "whole": ("id int primary key, name text, big text", "full"),
    "größe 表": (
        'id int, "naïve ☃" text, big text, part int default 0, primary key (id, part)',
        "default",
    ),
    "by code": ("id int unique not null, name text, big text", 'using index "by code_id_key"'),
    "keyless": ("id int, name text, big text", "full"),
}
TEXTS = ("", "x", "ß" * 7, "日本語", "\U0001f600", "\\N", "a\tb\nc", "'", "null", "u", "x" * 500)


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def connection(
    database: PostgresServer, request: pytest.FixtureRequest
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database of this test."""
    name = f"db_{abs(hash(request.node.nodeid))}"
    database.execute(f"create database {name}")
    with psycopg.connect(database.dsn_of(name), autocommit=True) as opened:
        yield opened
        for (slot,) in opened.execute(
            "select slot_name from pg_replication_slots where database = current_database()"
        ).fetchall():
            opened.execute("select pg_drop_replication_slot(%s)", (slot,))


def dsn(connection: psycopg.Connection[Any]) -> str:
    return f"{connection.info.dsn} host=127.0.0.1"


class _History:
    """Random statements. Each table keeps the names of its columns besides id, which ALTER changes."""

    def __init__(self, connection: psycopg.Connection[Any], rng: random.Random) -> None:
        self._connection = connection
        self._rng = rng
        self._altered = 0
        self.columns: dict[str, list[str]] = {}
        for table, (columns, identity) in TABLES.items():
            connection.execute(f'create table "{table}" ({columns})')
            connection.execute(f'alter table "{table}" replica identity {identity}')
            connection.execute(f'alter table "{table}" alter column big set storage external')
            self.columns[table] = [c for c in self._names(table) if c not in ("id", "part")]
        connection.execute("create publication p for all tables")

    def _names(self, table: str) -> list[str]:
        cursor = self._connection.execute(f'select * from "{table}" limit 0')
        return [column.name for column in cursor.description or ()]

    def transaction(self) -> None:
        """Run statements, and commit them in four of five cases."""
        is_kept = self._rng.random() < 0.8
        before = {table: list(names) for table, names in self.columns.items()}
        with self._connection.transaction(force_rollback=not is_kept):
            for _ in range(self._rng.randint(0, 6)):
                try:
                    with self._connection.transaction():
                        self._statement()
                except psycopg.errors.UniqueViolation:
                    pass  # the subtransaction is rolled back
        if not is_kept:
            self.columns = before

    def _statement(self) -> None:
        table = self._rng.choice(list(TABLES))
        kinds = (self._insert, self._update, self._move, self._delete, self._truncate, self._alter)
        self._rng.choices(kinds, (8, 8, 4, 4, 1, 2))[0](table)

    def _value(self, column: str) -> str | None:
        if column == "big" and self._rng.random() < 0.5:
            return self._rng.choice(TEXTS[1:]) * 900
        text = self._rng.choice((None, *TEXTS))
        return text[:20] if text and column == "name" else text

    def _run(self, statement: str, table: str, column: str = "", *values: object) -> None:
        names = {"table": sql.Identifier(table), "column": sql.Identifier(column or "id")}
        self._connection.execute(sql.SQL(statement).format(**names), values)

    def _insert(self, table: str) -> None:
        columns = self.columns[table]
        for _ in range(self._rng.randint(1, 3)):
            statement = sql.SQL("insert into {} ({}) values ({})").format(
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, ["id", *columns])),
                sql.SQL(", ").join([sql.Placeholder()] * (1 + len(columns))),
            )
            values = [self._value(column) for column in columns]
            self._connection.execute(statement, [self._rng.randint(0, 30), *values])

    def _update(self, table: str) -> None:
        column = self._rng.choice(self.columns[table])
        value, at = self._value(column), self._rng.randint(0, 30)
        self._run("update {table} set {column} = %s where id between %s and %s", table, column,
                  value, at, at + 5)  # fmt: skip

    def _move(self, table: str) -> None:
        at, to = self._rng.randint(0, 30), self._rng.randint(0, 30)
        self._run("update {table} set id = %s where id = %s", table, "", to, at)

    def _delete(self, table: str) -> None:
        self._run("delete from {table} where id = %s", table, "", self._rng.randint(0, 30))

    def _truncate(self, table: str) -> None:
        tables = {table, self._rng.choice(list(TABLES))}
        names = sql.SQL(", ").join(map(sql.Identifier, sorted(tables)))
        self._connection.execute(sql.SQL("truncate {}").format(names))

    def _alter(self, table: str) -> None:
        """Change a column, and write a row: a Relation tells of a change of the table only before a change of a row."""
        self._altered += 1
        name = f"c{self._altered}"
        columns = self.columns[table]
        extra = [column for column in columns if column[0] == "c"]
        kind = self._rng.choice(("add", "drop", "rename")) if extra else "add"
        change = {
            "add": f"add column {name} text",
            "drop": "drop column {column}",
            "rename": f"rename {{column}} to {name}",
        }[kind]
        self._run(f"alter table {{table}} {change}", table, extra[0] if extra else "")
        if kind != "add":
            columns.remove(extra[0])
        if kind != "drop":
            columns.append(name)
        self._run("insert into {table} (id) values (%s)", table, "", 1000 + self._altered)


class _Replay:
    """Rows of tables as changes leave them, by table and key."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, str | None]]] = {}
        self._columns: dict[str, list[str]] = {}

    def apply(self, change: Change) -> None:
        table = change.relation[2]
        rows = self.rows.setdefault(table, [])
        self._follow(table, [column[0] for column in change.relation[4]])
        keys = [column[0] for column in change.relation[4] if column[3]]
        if change.kind == "T":
            rows.clear()
            return
        before: dict[str, str | None] = {}
        if change.kind in "UD":
            wanted = change.old or change.new
            assert wanted is not None
            before = next(row for row in rows if all(row[key] == wanted[key] for key in keys))
            rows.remove(before)
        if change.new is not None:
            rows.append(
                {
                    name: before[name] if value == UNCHANGED else value
                    for name, value in change.new.items()
                }
            )

    def _follow(self, table: str, columns: list[str]) -> None:
        """Drop, add and rename columns of the rows that are there."""
        before = self._columns.get(table, columns)
        gone = [name for name in before if name not in columns]
        added = [name for name in columns if name not in before]
        names = dict(zip(gone, added, strict=False)) if len(gone) == len(added) else {}
        for row in self.rows[table]:
            moved = {names.get(name, name): value for name, value in row.items()}
            row.clear()
            row.update({name: moved.get(name) for name in columns})
        self._columns[table] = columns


@pytest.mark.parametrize("number", range(4))
def test_a_random_history_is_decoded_and_replayed(
    connection: psycopg.Connection[Any], rng: random.Random, number: int
) -> None:
    history = _History(connection, rng)
    slots = [f"s{connection.info.dbname}"[:40], f"t{connection.info.dbname}"[:40]]
    for slot, plugin in zip(slots, ("pgoutput", "test_decoding"), strict=True):
        new_slot(connection, slot, plugin)
    for _ in range(60):
        history.transaction()
    data = peeked(dsn(connection), slots[0], "p")
    log = LogDecoder().decode(data)
    transactions, changes = SlowDecoder().decode(data)
    assert transactions_of(log) == transactions
    assert changes_of(log) == changes
    assert len(changes) > 20
    named = [(change.xid, change.relation[2], change.kind) for change in changes]
    assert told(dsn(connection), slots[1]) == named
    _check_rows(connection, history, changes)


def _check_rows(
    connection: psycopg.Connection[Any], history: _History, changes: list[Change]
) -> None:
    replay = _Replay()
    for change in changes:
        replay.apply(change)
    for table in TABLES:
        columns = ["id", *history.columns[table]]
        texts = [sql.SQL("{}::text").format(sql.Identifier(column)) for column in columns]
        statement = sql.SQL("select {} from {}").format(
            sql.SQL(", ").join(texts), sql.Identifier(table)
        )
        expected = connection.execute(statement).fetchall()
        rows = [tuple(row[column] for column in columns) for row in replay.rows.get(table, [])]
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_parts_of_a_log_decode_as_the_whole(
    connection: psycopg.Connection[Any], rng: random.Random
) -> None:
    history = _History(connection, rng)
    slot = f"s{connection.info.dbname}"[:40]
    new_slot(connection, slot)
    for _ in range(15):
        history.transaction()
    whole = changes_of(LogDecoder().decode(peeked(dsn(connection), slot, "p")))
    parts: list[Change] = []
    while True:
        log = LogDecoder().decode(peeked(dsn(connection), slot, "p", changes=1))
        if log.end_lsn is None:
            break
        parts += changes_of(log)
        connection.execute("select pg_replication_slot_advance(%s, %s::text::pg_lsn)",
                           (slot, f"{log.end_lsn >> 32:X}/{log.end_lsn & 0xFFFFFFFF:X}"))  # fmt: skip
    assert parts == whole


def test_a_row_of_1600_columns(connection: psycopg.Connection[Any]) -> None:
    names = [f"c{number}" for number in range(1599)]
    connection.execute(
        f"create table wide (id int primary key, {', '.join(f'{name} int' for name in names)})"
    )
    connection.execute("create publication p for table wide")
    slot = f"s{connection.info.dbname}"[:40]
    new_slot(connection, slot)
    connection.execute("insert into wide (id, c7, c1598) values (1, 7, 1598), (2, null, -5)")
    connection.execute("update wide set c3 = id")
    data = peeked(dsn(connection), slot, "p")
    (batch,) = LogDecoder().decode(data).batches
    assert batch.new.num_columns == 1600
    assert batch.new["c7"].to_pylist() == ["7", None, "7", None]
    assert batch.new["c1598"].to_pylist() == ["1598", "-5", "1598", "-5"]
    assert batch.new["c3"].to_pylist() == [None, None, "1", "2"]
    assert batch.new["c4"].null_count == 4
    assert changes_of(LogDecoder().decode(data)) == SlowDecoder().decode(data)[1]


def test_a_big_value_that_did_not_change_is_marked(connection: psycopg.Connection[Any]) -> None:
    """The sheet's case 8, in the log: the update, and the update of the key."""
    connection.execute("create table t (id int primary key, name varchar(20), big text)")
    connection.execute("alter table t alter column big set storage external")
    connection.execute("create publication p for table t")
    slot = f"s{connection.info.dbname}"[:40]
    new_slot(connection, slot)
    connection.execute(
        "insert into t values (1, 'a', repeat('x', 96000)), (2, 'b', repeat('y', 96000))"
    )
    connection.execute("update t set name = 'x' where id = 1")
    connection.execute("update t set id = 20 where id = 2")
    (batch,) = LogDecoder().decode(peeked(dsn(connection), slot, "p")).batches
    assert batch.kinds.tolist() == [Kind.INSERT, Kind.INSERT, Kind.UPDATE, Kind.UPDATE]
    assert batch.old_rows.tolist() == [OldRow.NONE, OldRow.NONE, OldRow.NONE, OldRow.KEY]
    assert batch.unchanged.keys() == {"big"}
    assert batch.unchanged["big"].tolist() == [False, False, True, True]
    assert batch.new["big"].to_pylist() == ["x" * 96000, "y" * 96000, None, None]
    assert batch.new["id"].to_pylist() == ["1", "2", "1", "20"]
    assert batch.old is not None
    assert batch.old["id"].to_pylist() == [None, None, None, "2"]
    assert batch.old["big"].null_count == 4


def test_an_altered_table_begins_a_batch(connection: psycopg.Connection[Any]) -> None:
    connection.execute("create table t (id int primary key, name varchar(20))")
    connection.execute("create publication p for table t")
    slot = f"s{connection.info.dbname}"[:40]
    new_slot(connection, slot)
    with connection.transaction():
        connection.execute("insert into t values (1, 'a')")
        connection.execute("alter table t add column extra numeric(10, 2)")
        connection.execute("insert into t values (2, 'b', 3)")
    log = LogDecoder().decode(peeked(dsn(connection), slot, "p"))
    assert [batch.new.schema.names for batch in log.batches] == [
        ["id", "name"],
        ["id", "name", "extra"],
    ]
    assert [batch.ordinals.tolist() for batch in log.batches] == [[0], [1]]
    assert log.relations == (log.batches[1].relation,)
    columns = connection.execute(
        "select attname, atttypid, atttypmod, attnum = 1 from pg_attribute"
        " where attrelid = 't'::regclass and attnum > 0"
    ).fetchall()
    oid = connection.execute("select 't'::regclass::oid").fetchall()[0][0]
    assert form_of(log.relations[0]) == (oid, "public", "t", "d", tuple(columns))


def test_texts_do_not_depend_on_the_server_but_on_the_session_that_peeks(
    connection: psycopg.Connection[Any], database: PostgresServer
) -> None:
    assert database.execute("show timezone") == [("Asia/Tokyo",)]
    connection.execute(
        "create table t (id int primary key, at timestamptz, b bytea, f float8, d interval)"
    )
    connection.execute("create publication p for table t")
    slot = f"s{connection.info.dbname}"[:40]
    new_slot(connection, slot)
    connection.execute("set timezone = 'America/New_York'")
    connection.execute(
        "insert into t values (1, '2026-01-02 03:04:05.678901+02', '\\x00ff', 0.1, '1 day 2 hours')"
    )
    (batch,) = LogDecoder().decode(peeked(dsn(connection), slot, "p")).batches
    expected = {
        "id": "1",
        "at": "2026-01-02 01:04:05.678901+00",
        "b": "\\x00ff",
        "f": "0.1",
        "d": "P1DT2H",
    }
    assert batch.new.to_pylist() == [expected]
    other = peeked(dsn(connection), slot, "p", timezone="Asia/Tokyo", bytea_output="escape")
    (batch,) = LogDecoder().decode(other).batches
    changed = {"at": "2026-01-02 10:04:05.678901+09", "b": "\\000\\377"}
    assert batch.new.to_pylist() == [expected | changed]
