"""Tables with generated columns, and with keys that no date of a table holds."""

from __future__ import annotations

from tests.support.databases.synced_database import SyncedDatabase


def test_a_generated_column_is_not_sent_and_stops_nothing(shop: SyncedDatabase) -> None:
    shop.execute(
        "create table gen (id int primary key, a int, b int generated always as (a * 2) stored)",
        "insert into gen (id, a) values (1, 1)",
    )
    shop.run()
    shop.execute("insert into gen (id, a) values (2, 2)", "update gen set a = 3 where id = 1")
    shop.execute("delete from gen where id = 2", "insert into gen (id, a) values (4, 4)")
    shop.run()
    assert [(row["id"], row["a"]) for row in shop.target("gen")] == [(1, 3), (4, 4)]


def test_keys_of_infinity_are_bad_rows_of_the_copy(shop: SyncedDatabase) -> None:
    shop.execute(
        "create table days (d date primary key)",
        "insert into days values ('2020-01-01'), ('infinity'), ('-infinity'), ('0044-03-15 BC')",
        "create table moments (d timestamptz primary key)",
        "insert into moments values ('2020-01-01'), ('infinity'), ('-infinity')",
    )
    shop.run()
    assert len(shop.target("days")) == len(shop.target("moments")) == 1
    bad = [(row["relation"], row["key"]) for row in shop.target("__cdc_errors")]
    assert len(bad) == 5
    for relation in ("public.days", "public.moments"):
        assert (relation, '{"d": "infinity"}') in bad
        assert (relation, '{"d": "-infinity"}') in bad
