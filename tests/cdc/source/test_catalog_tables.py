"""Tables as the catalog of a real server describes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cdc.source.conftest import Database
from widetable import InvalidError
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.session import session
from widetable_cdc.source.source_table import SourceTable

Tables = dict[tuple[str, str], SourceTable]


@pytest.fixture
def listed(database: Database) -> Callable[..., Tables]:
    def tables(*include: str, exclude: tuple[str, ...] = ()) -> Tables:
        with session(database.dsn, "shop") as connection:
            return source_tables(connection, include, exclude)

    return tables


def test_columns_have_what_the_catalog_says(
    database: Database, listed: Callable[..., Tables]
) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('ok')",
        "CREATE DOMAIN price AS numeric(10, 2)",
        "CREATE DOMAIN net AS price NOT NULL",
        "CREATE TABLE t (gone int, id int PRIMARY KEY, p net, m mood[], v varchar(20) DEFAULT 'a', "
        "n bigint GENERATED ALWAYS AS IDENTITY, g int GENERATED ALWAYS AS (id * 2) STORED, "
        '"Odd "" näme" timestamp(3) NOT NULL)',
        "ALTER TABLE t DROP COLUMN gone",
    )
    table = listed("public.t")["public", "t"]
    assert [(each.name, each.attnum) for each in table.columns] == [
        ("id", 2), ("p", 3), ("m", 4), ("v", 5), ("n", 6), ("g", 7), ('Odd " näme', 8),
    ]  # fmt: skip
    by_name = {each.name: each for each in table.columns}
    assert (by_name["p"].type.name, by_name["p"].type.typmod) == ("numeric", (10 << 16 | 2) + 4)
    assert by_name["m"].type.element is not None
    assert (by_name["m"].type.element.name, by_name["m"].type.element.kind) == ("mood", "e")
    assert by_name["v"].type.typmod == 24
    assert by_name['Odd " näme'].type.typmod == 3
    assert [each.name for each in table.columns if not each.is_nullable] == [
        "id",
        "n",
        'Odd " näme',
    ]
    assert [each.name for each in table.columns if each.has_default] == ["v", "n"]
    assert [each.name for each in table.columns if each.is_generated] == ["g"]
    ((oid, relfilenode),) = database.execute(
        "SELECT oid::int8, relfilenode::int8 FROM pg_class WHERE relname = 't'"
    )
    assert (table.oid, table.relfilenode, table.identity) == (oid, relfilenode, "d")
    assert table.key == ("id",)


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("int DEFAULT 7", "7"),
        ("text DEFAULT 'a\"b''c\\'", "a\"b'c\\"),
        ("text DEFAULT ''", ""),
        ("numeric(5,2) DEFAULT 1.5", "1.50"),
        ("timestamptz DEFAULT '2026-01-02 03:04:05+09'", "2026-01-01 18:04:05+00"),
        ("int[] DEFAULT '{1,NULL}'", "{1,NULL}"),
        ("text[] DEFAULT '{\"a b\"}'", '{"a b"}'),
        ("bytea DEFAULT '\\x00ff'", "\\x00ff"),
        ("interval DEFAULT '1 day 2 hours'", "P1DT2H"),
        ("text", None),
        ("text DEFAULT NULL", None),
        ("float8 DEFAULT random()", None),
    ],
)
def test_the_value_of_older_rows_is_the_text_that_the_log_would_have(
    database: Database, listed: Callable[..., Tables], added: str, expected: str | None
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        f"ALTER TABLE t ADD COLUMN a {added}",
    )
    column = listed("t")["public", "t"].columns[1]
    assert column.missing == expected
    # The server drops a default that is null.
    assert column.has_default == ("DEFAULT" in added and added != "text DEFAULT NULL")
    if expected is not None:
        database.execute("VACUUM FULL t")
        assert listed("t")["public", "t"].columns[1].missing is None


def test_the_key_is_what_rows_are_identified_by(
    database: Database, listed: Callable[..., Tables]
) -> None:
    database.execute(
        "CREATE TABLE plain (a int, b int, c int, PRIMARY KEY (c, a))",
        "CREATE TABLE deferred (a int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE deferred_full (a int PRIMARY KEY DEFERRABLE)",
        "ALTER TABLE deferred_full REPLICA IDENTITY FULL",
        "CREATE TABLE indexed (a int PRIMARY KEY, b int NOT NULL, c int NOT NULL, d int)",
        "CREATE UNIQUE INDEX by_c_b ON indexed (c, b) INCLUDE (d)",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX by_c_b",
        "CREATE TABLE keyless (a int)",
        "CREATE TABLE nothing (a int PRIMARY KEY)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
    )
    tables = {name: (table.identity, table.key) for (_, name), table in listed("*").items()}
    assert tables == {
        "plain": ("d", ("c", "a")),
        "deferred": ("d", ()),
        "deferred_full": ("f", ("a",)),
        "indexed": ("i", ("c", "b")),
        "keyless": ("d", ()),
        "nothing": ("n", ("a",)),
    }


def test_only_tables_whose_changes_are_in_the_log_are_listed(
    database: Database, listed: Callable[..., Tables]
) -> None:
    database.execute(
        "CREATE SCHEMA sales",
        "CREATE TABLE t (id int)",
        "CREATE TABLE sales.t (id int)",
        "CREATE TABLE sales.audit_1 (id int)",
        "CREATE UNLOGGED TABLE scratch (id int)",
        "CREATE VIEW v AS SELECT 1 AS one",
        "CREATE MATERIALIZED VIEW mv AS SELECT 1 AS one",
    )
    assert set(listed("*.*", exclude=("*.audit_*",))) == {("public", "t"), ("sales", "t")}
    assert listed("nowhere.*") == {}
    for name, what in (("v", "a view"), ("mv", "a materialized view"), ("scratch", "unlogged")):
        with pytest.raises(InvalidError, match=rf"public\.{name}: found .*{what}"):
            listed("t", name)


def test_a_partitioned_table_is_one_table_that_shows_when_its_parts_change(
    database: Database, listed: Callable[..., Tables]
) -> None:
    database.execute(
        "CREATE TABLE t (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
        "CREATE TABLE other (id int, day date, PRIMARY KEY (id, day))",
    )
    tables = listed("*")
    assert set(tables) == {("public", "t"), ("public", "other")}
    seen = {tables["public", "t"].relfilenode}
    database.execute("INSERT INTO t VALUES (1, '2026-01-05')")
    assert listed("t")["public", "t"].relfilenode in seen
    for statement in (
        "VACUUM FULL t1",
        "ALTER TABLE t ATTACH PARTITION other FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
        "ALTER TABLE t DETACH PARTITION t1",
    ):
        database.execute(statement)
        seen.add(listed("t")["public", "t"].relfilenode)
    assert len(seen) == 4


def test_a_rewrite_changes_the_relfilenode(
    database: Database, listed: Callable[..., Tables]
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
    before = listed("t")["public", "t"]
    database.execute("ALTER TABLE t ALTER COLUMN n TYPE bigint USING n * 100")
    after = listed("t")["public", "t"]
    assert before.relfilenode != after.relfilenode
    assert before.oid == after.oid
