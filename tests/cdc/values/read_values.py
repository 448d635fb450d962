"""Values of a type as a server writes them to its log, as ADBC copies them, and as psycopg has them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa

from tests.cdc.log.peeked_log import new_slot, peeked
from tests.support.databases.postgres_server import PostgresServer
from widetable_cdc.log.changes import ChangeBatch
from widetable_cdc.log.log_decoder import LogDecoder
from widetable_cdc.values.column_type import TargetType, column_type
from widetable_cdc.values.session_settings import SESSION_SETTINGS
from widetable_cdc.values.source_types import TypeRow, resolve
from widetable_cdc.values.text_cast import Cast
from widetable_cdc.values.wished_type import wished_type

_TYPES = (
    "select oid::bigint, typname, typtype::text, typbasetype::bigint, typtypmod, typelem::bigint,"
    " typcategory::text from pg_type"
)


@dataclass(frozen=True)
class ReadValues:
    """texts: of the log. logged, copied: the same values by both ways. values: psycopg's."""

    type: TargetType
    texts: pa.Array
    logged: Cast
    copied: Cast
    values: list[Any]


@contextmanager
def settled(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name, value in SESSION_SETTINGS.items():
            connection.execute("select set_config(%s, %s, false)", (name, value))
        yield connection


def type_of(connection: psycopg.Connection[Any], sql_type: str, **wishes: Any) -> TargetType:
    """The type of a column that is declared so, by the server's catalog."""
    rows = {row[0]: TypeRow(*row) for row in connection.execute(_TYPES.encode()).fetchall()}
    connection.execute(f"create table declared (v {sql_type})".encode())
    ((oid, typmod),) = connection.execute(
        "select atttypid::bigint, atttypmod from pg_attribute"
        " where attrelid = 'declared'::regclass and attnum = 1"
    ).fetchall()
    connection.execute("drop table declared")
    source = resolve(oid, typmod, rows)
    return wished_type(source, **wishes) if "wish" in wishes else column_type(source, **wishes)


def read_values(
    server: PostgresServer,
    sql_type: str,
    literals: Sequence[str | None],
    python: str | None = None,
    **wishes: Any,
) -> ReadValues:
    """Write literals to a table of one column, and read them in every way, in their order. python: a type that psycopg
    knows, if it does not know this one.
    """
    with settled(server) as connection:
        kind = type_of(connection, sql_type, **wishes)
        connection.execute(f"create table v (id int primary key, v {sql_type})".encode())
        connection.execute("create publication v for table v")
        new_slot(connection, "v")
        try:
            with connection.cursor() as cursor, cursor.copy("copy v from stdin") as rows:
                for number, literal in enumerate(literals):
                    rows.write_row((number, literal))
            (batch,) = LogDecoder().decode(peeked(server.dsn, "v", "v")).batches
            copied = _copied(server, kind.select('"v"'))
            values = _psycopg_values(connection, python or sql_type)
            return ReadValues(
                kind,
                batch.new["v"],
                kind.from_texts(batch.new["v"]),
                kind.from_copied(copied),
                values,
            )
        finally:
            connection.execute("select pg_drop_replication_slot('v')")
            connection.execute("drop publication v")
            connection.execute("drop table v")


def _copied(server: PostgresServer, expression: str) -> pa.Array:
    settings = " ".join(f"-c {n}={v.replace(' ', '')}" for n, v in SESSION_SETTINGS.items())
    uri = f"postgresql://postgres@127.0.0.1:{server.port}/postgres?options={quote(settings)}"
    with adbc.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"select {expression} as v from v order by id")
        return cursor.fetch_arrow_table().column(0).combine_chunks()


def _psycopg_values(connection: psycopg.Connection[Any], sql_type: str) -> list[Any]:
    """Texts where Python has no value."""
    for kind in (sql_type, "text"):
        statement = f"select v::{kind} from v order by id".encode()
        try:
            return [value for (value,) in connection.execute(statement).fetchall()]
        except (psycopg.DataError, NotImplementedError):
            assert kind != "text"
    raise AssertionError


def batch_of(server: PostgresServer, *statements: str) -> ChangeBatch:
    """What statements on the table t write to the log."""
    with settled(server) as connection:
        connection.execute("create publication v for table t")
        new_slot(connection, "v")
        try:
            for statement in statements:
                connection.execute(statement.encode())
            (batch,) = LogDecoder().decode(peeked(server.dsn, "v", "v")).batches
            return batch
        finally:
            connection.execute("select pg_drop_replication_slot('v')")
            connection.execute("drop publication v")


def random_text(rng: random.Random) -> str:
    letters = "ab ß日\U0001f600{},\"\\\n\t'[]=NULLnull"
    return "".join(rng.choice(letters) for _ in range(rng.choice((0, 1, 2, 5, 40))))
