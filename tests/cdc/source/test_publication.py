"""The publication on a real server: what it takes in, what it leaves out, and the race of a table that is taken in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.cdc.source.conftest import Database
from widetable import InvalidError, StorageError
from widetable_cdc.copying.visibility import counts
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.publication import Publication
from widetable_cdc.source.server_checks import changed_members, unsent_parts
from widetable_cdc.source.session import Connection, session
from widetable_cdc.source.slot import Slot
from widetable_cdc.source.source_snapshot import SourceSnapshot


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with session(database.dsn, "shop") as opened:
        yield opened


def test_it_is_made_for_named_tables_and_takes_in_what_it_lacks(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY)",
        'CREATE TABLE "b c" (id int PRIMARY KEY) PARTITION BY HASH (id)',
        'CREATE TABLE b0 PARTITION OF "b c" FOR VALUES WITH (MODULUS 1, REMAINDER 0)',
        "CREATE TABLE other (id int)",
    )
    publication = Publication(connection, "Shop's")
    assert publication.members() == {}
    tables = source_tables(connection, ["a", "b c"])
    assert publication.ensure([tables["public", "a"]]) is not None
    assert set(publication.members()) == {("public", "a")}
    assert publication.ensure(tables.values()) is not None
    assert set(publication.members()) == {("public", "a"), ("public", "b c")}
    assert publication.ensure(tables.values()) is None
    assert database.execute("SELECT puballtables, pubviaroot FROM pg_publication") == [
        (False, True)
    ]
    publication.take_out(tables.values())
    publication.take_out(tables.values())
    assert publication.members() == {}
    publication.drop()
    publication.drop()
    assert database.execute("SELECT count(*) FROM pg_publication") == [(0,)]


def test_a_locked_table_is_waited_for_a_limited_time(
    database: Database, connection: Connection
) -> None:
    """A transaction that alters a table for hours must not hold up the others without a word."""
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    publication = Publication(connection, "p", lock_seconds=0.05)
    tables = source_tables(connection, ["a", "b"])
    publication.ensure([tables["public", "a"]])
    with session(database.dsn, "other") as other, other.transaction():
        other.execute("LOCK TABLE a, b IN ACCESS EXCLUSIVE MODE")
        for ask in (
            publication.members,
            lambda: publication.ensure(tables.values()),
            lambda: publication.take_out(tables.values()),
        ):
            with pytest.raises(StorageError, match=r"lock timeout.*no transaction alters"):
                ask()
    assert set(publication.members()) == {("public", "a")}
    assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_a_transaction_that_runs_while_a_table_is_taken_in_lies_below_the_floor(
    database: Database, connection: Connection
) -> None:
    """Its first insert is never sent, so only a snapshot that sees it makes the copy whole (case 23)."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    publication = Publication(connection, "p")
    publication.ensure([])
    Slot(connection, database.name).create()
    with database.connect() as opened:
        ((xid,),) = opened.execute(
            "INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()::text::int8"
        )
        floor = publication.ensure(source_tables(connection, ["t"]).values())
        assert floor is not None
        opened.execute("INSERT INTO t VALUES (2)")
        early = _snapshot(database)
    late = _snapshot(database)
    sent = database.execute(
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes("
        f"'{database.name}', NULL, NULL, 'proto_version', '1', 'publication_names', 'p') "
        "WHERE get_byte(data, 0) = ascii('I')"
    )
    assert sent == [(1,)]
    assert xid < floor
    nothing = np.empty(0, np.uint32)
    assert not counts(early, nothing, floor)
    assert counts(late, nothing, floor)


def _snapshot(database: Database) -> SourceSnapshot:
    ((text,),) = database.execute("SELECT pg_current_snapshot()::text")
    return SourceSnapshot.parse(text)


def test_what_it_leaves_out_is_named(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE TABLE whole (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id) STORED)",
        "CREATE TABLE cut (id int PRIMARY KEY, a int, b int)",
        "CREATE TABLE absent (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE whole, cut (id, a) WHERE (id > 5)",
    )
    tables = source_tables(connection, ["*"])
    unsent = unsent_parts(tables.values(), Publication(connection, "p").members())
    assert unsent == {
        ("public", "absent"): "it is not in the publication",
        (
            "public",
            "cut",
        ): "the publication leaves out rows that do not meet (id > 5) and the columns b",
    }


def test_a_table_that_was_out_of_it_for_a_while_is_found(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        "CREATE TABLE c (id int PRIMARY KEY, v int)",
        "CREATE PUBLICATION p FOR TABLE a, b, c",
    )
    publication = Publication(connection, "p")
    before = publication.members()
    database.execute("ALTER TABLE a ADD COLUMN more int", "ALTER TABLE a RENAME COLUMN v TO w")
    assert changed_members(before, publication.members()) == frozenset()
    database.execute(
        "ALTER PUBLICATION p DROP TABLE b",
        "ALTER PUBLICATION p ADD TABLE b",
        "ALTER PUBLICATION p SET TABLE a, b, c WHERE (id > 5)",
    )
    assert changed_members(before, publication.members()) == {("public", "b"), ("public", "c")}


def test_tables_of_a_publication_of_the_user_are_members(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE PUBLICATION everything FOR ALL TABLES",
        "CREATE PUBLICATION a_schema FOR TABLES IN SCHEMA public",
    )
    tables = source_tables(connection, ["t"]).values()
    for name in ("everything", "a_schema"):
        assert Publication(connection, name).ensure(tables) is None


def test_a_publication_that_cannot_serve_is_refused(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY HASH (id)",
        "CREATE TABLE plain (id int PRIMARY KEY)",
        "CREATE PUBLICATION rows_only WITH (publish = 'insert, update')",
        "CREATE PUBLICATION parts WITH (publish_via_partition_root = false)",
    )
    tables = source_tables(connection, ["*"])
    with pytest.raises(InvalidError, match="does not send delete and truncate"):
        Publication(connection, "rows_only").ensure([])
    with pytest.raises(InvalidError, match="names of partitions"):
        Publication(connection, "parts").ensure(tables.values())
    assert Publication(connection, "parts").ensure([tables["public", "plain"]]) is not None
