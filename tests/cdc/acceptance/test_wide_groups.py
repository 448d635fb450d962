"""Cases 14 and 25: two databases and another writer fill one wide row, each its own group of columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase

COLUMNS = {
    "id": "INT",
    "name": "STRING",
    "crm_lsn": "BIGINT",
    "city": "STRING",
    "erp_lsn": "BIGINT",
    "clicks": "BIGINT",
}
OPTIONS = {
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "widetable.fsync": "false",
    "fields.crm_lsn.sequence-group": "name",
    "fields.erp_lsn.sequence-group": "city",
}


@pytest.fixture
def erp(server: PostgresServer, shop: SyncedDatabase, tmp_path: Path) -> Iterator[SyncedDatabase]:
    """A second database, whose job writes into the warehouse of the first one."""
    wt.Catalog(str(shop.warehouse)).create_table(
        "shop.wide", COLUMNS, primary_key=["id"], options=OPTIONS
    )
    shop.execute("drop table t", "create table crm (id int primary key, name text, secret text)")
    with SyncedDatabase.made(server, tmp_path) as made:
        made.warehouse = shop.warehouse
        made.execute("create table erp (id int primary key, city text)")
        yield made


def run(database: SyncedDatabase, relation: str, column: str, sequence: str) -> None:
    group = {"columns": [column], "sequence": sequence}
    database.run(table={f"public.{relation}": {"target": "wide", "group": group}})


def rows(shop: SyncedDatabase) -> list[tuple[Any, ...]]:
    return [
        (row["id"], row["name"], row["city"], row["clicks"])
        for row in shop.target("wide")
        if row["name"] or row["city"] or row["clicks"]
    ]


def test_25_two_databases_fill_one_row(shop: SyncedDatabase, erp: SyncedDatabase) -> None:
    shop.execute("insert into crm values (1, 'Ann', 'x'), (2, 'Bob', 'y')")
    erp.execute("insert into erp values (1, 'Oslo'), (3, 'Rome')")
    run(shop, "crm", "name", "crm_lsn")
    run(erp, "erp", "city", "erp_lsn")
    shop.table("wide").write([{"id": 1, "clicks": 5}])
    assert rows(shop) == [(1, "Ann", "Oslo", 5), (2, "Bob", None, None), (3, None, "Rome", None)]
    shop.execute("update crm set name = 'Anna' where id = 1", "delete from crm where id = 2")
    erp.execute("update erp set city = null where id = 1", "update erp set id = 4 where id = 3")
    run(erp, "erp", "city", "erp_lsn")
    run(shop, "crm", "name", "crm_lsn")
    assert rows(shop) == [(1, "Anna", None, 5), (4, None, "Rome", None)]
    assert shop.table("wide").audit(start=0).ok


def test_14_null_is_a_value_in_a_group_too(shop: SyncedDatabase, erp: SyncedDatabase) -> None:
    shop.execute("insert into crm values (1, 'Ann', 'x')")
    run(shop, "crm", "name", "crm_lsn")
    shop.execute("update crm set name = null")
    run(shop, "crm", "name", "crm_lsn")
    shop.table("wide").write([{"id": 1, "clicks": 7}])
    assert rows(shop) == [(1, None, None, 7)]


def test_a_big_value_of_a_group_stays(shop: SyncedDatabase, erp: SyncedDatabase) -> None:
    shop.execute(
        "insert into crm select 1, (select string_agg(md5(j::text), '') "
        "from generate_series(1, 3000) as j), 'x'"
    )
    run(shop, "crm", "name", "crm_lsn")
    shop.execute("update crm set secret = 'y'")
    run(shop, "crm", "name", "crm_lsn")
    assert [len(row["name"]) for row in shop.target("wide")] == [96_000]
