"""Tables that no target fits are parked while the others go on, and no table of somebody else is filled or dropped."""

from __future__ import annotations

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync, SyncedTable, SyncStatus

MISFITS = {
    "another key": ({"id": "INT", "name": "STRING NOT NULL", "big": "STRING"}, ["name"], "the key"),
    "no column": ({"id": "INT NOT NULL", "other": "STRING"}, ["id"], "no 'name', 'big'"),
    "a narrower type": (
        {"id": "SMALLINT NOT NULL", "name": "STRING", "big": "STRING"},
        ["id"],
        "int16",
    ),
    "another type": ({"id": "INT NOT NULL", "name": "INT", "big": "STRING"}, ["id"], "'name'"),
}


def of(status: SyncStatus, relation: str) -> SyncedTable:
    return next(one for one in status.tables if one.relation == relation)


@pytest.mark.parametrize("case", MISFITS)
def test_a_table_that_is_there_and_does_not_fit(shop: SyncedDatabase, case: str) -> None:
    columns, key, word = MISFITS[case]
    shop.execute("insert into t values (1, 'a')", "create table u (id int primary key)")
    shop.execute("insert into u values (1)")
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.t", columns, primary_key=key)
    status = shop.run()
    assert of(status, "public.t").status.value == "parked"
    assert word in of(status, "public.t").reason
    assert "Drop the table" in of(status, "public.t").reason
    assert shop.target("u") == [{"id": 1}]
    Sync(shop.config()).resume("public.t", recopy=True)
    assert shop.table().snapshots() == []  # it is still there, as it was
    catalog.drop_table("shop.t")
    shop.run()
    assert shop.target() == shop.source()


def test_a_table_that_is_there_and_is_wider(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a')")
    columns = {"id": "BIGINT NOT NULL", "name": "STRING", "big": "STRING", "more": "INT"}
    wt.Catalog(str(shop.warehouse)).create_table("shop.t", columns, primary_key=["id"])
    shop.run()
    assert shop.target() == [{"id": 1, "name": "a", "big": None, "more": None}]


def test_a_key_that_no_table_can_have_parks_its_table_alone(shop: SyncedDatabase) -> None:
    shop.run()
    shop.execute("create table odd (k int[] primary key)", "insert into odd values ('{1}')")
    shop.execute("insert into t values (1)")
    for _ in range(2):
        status = shop.run()
        assert "in a key" in of(status, "public.odd").reason
        assert of(status, "public.t").status.value == "streaming"
    assert shop.target() == shop.source()
    shop.execute("alter table odd add id int default 7")
    shop.execute("alter table odd drop constraint odd_pkey, add primary key (id)")
    shop.run()
    assert [row["id"] for row in shop.target("odd")] == [7]


def test_two_tables_do_not_share_a_target(shop: SyncedDatabase) -> None:
    shop.execute("create schema s", "create table s.t (id int primary key, name text, big text)")
    shop.execute("insert into t values (1, 'public')", "insert into s.t values (1, 's')")
    status = shop.run(tables=["public.*", "s.*"])
    reasons = {one.relation: one.reason for one in status.tables}
    assert reasons["public.t"] == ""
    assert "public.t" in reasons["s.t"]
    assert [row["name"] for row in shop.target()] == ["public"]
    shop.run(tables=["public.*", "s.*"], table={"s.t": {"target": "s_t"}})
    assert [row["name"] for row in shop.target("s_t")] == ["s"]


def test_a_renamed_table_goes_on_under_its_new_name(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a')")
    shop.run()
    shop.execute("alter table t rename to renamed", "insert into renamed values (2, 'b')")
    status = shop.run()
    assert of(status, "public.t").status.value == "gone"
    assert of(status, "public.renamed").status.value == "streaming"
    assert shop.target("renamed") == shop.source("renamed")


def test_a_wide_table_stays_when_its_group_is_resumed(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a')")
    wide = wt.Catalog(str(shop.warehouse)).create_table(
        "shop.wide",
        {"id": "INT NOT NULL", "name": "STRING", "lsn": "BIGINT", "mine": "STRING"},
        primary_key=["id"],
        options={"merge-engine": "partial-update", "fields.lsn.sequence-group": "name"},
    )
    special = {"target": "wide", "group": {"columns": ["name"], "sequence": "lsn"}}
    shop.run(table={"public.t": special})
    wide.write([{"id": 1, "mine": "kept"}])
    shop.execute("drop table t", "create table t (id int primary key, name varchar(20))")
    shop.execute("insert into t values (1, 'b')")
    status = shop.run(table={"public.t": special})
    assert of(status, "public.t").status.value == "parked"
    Sync(shop.config(table={"public.t": special})).resume("public.t", recopy=True)
    shop.run(table={"public.t": special})
    row = shop.target("wide")[0]
    assert (row["name"], row["mine"]) == ("b", "kept")
