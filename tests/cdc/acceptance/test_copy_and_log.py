"""Cases 1 to 5, 8 and 11 to 14: the copy meets the log, transactions stay whole, values arrive as they are."""

from __future__ import annotations

import datetime
import decimal
import threading

import psycopg
import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import wait_for
from widetable_cdc import Sync


def test_01_changes_around_the_copy_are_applied_once(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a'), (2, 'b')")
    Sync(shop.config()).prepare()  # the slot is there, nothing is copied
    shop.execute("insert into t values (3, 'c')", "update t set name = 'A' where id = 1")
    shop.run()
    shop.execute("delete from t where id = 2")
    shop.run()
    assert [(row["id"], row["name"]) for row in shop.target()] == [(1, "A"), (3, "c")]
    assert shop.folded() == shop.target()
    assert shop.table().audit(start=0).ok


def test_02_an_update_that_is_in_the_log_and_not_visible_is_not_lost(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'old')")
    Sync(shop.config()).prepare()
    shop.execute("alter system set synchronous_standby_names = 'nosuch'", "select pg_reload_conf()")
    try:
        hanging = psycopg.connect(shop.dsn, autocommit=True)
        update = threading.Thread(
            target=hanging.execute, args=("update t set name = 'new' where id = 1",)
        )
        update.start()
        wait_for(
            lambda: (
                shop.execute("select count(*) from pg_stat_activity where wait_event = 'SyncRep'")
                == [(1,)]
            )
        )
        copying = threading.Thread(target=shop.run)
        copying.start()
        wait_for(lambda: bool(shop.warehouse.exists()))
    finally:
        shop.execute("alter system reset synchronous_standby_names", "select pg_reload_conf()")
    update.join()
    copying.join()
    hanging.close()
    shop.run()
    assert [row["name"] for row in shop.target()] == ["new"]
    assert shop.folded() == shop.target()


def test_05_tables_of_a_transaction_share_a_barrier(shop: SyncedDatabase) -> None:
    shop.execute("create table a (id int primary key)", "create table b (id int primary key)")
    shop.run()
    shop.transaction("insert into a values (1)", "insert into b values (1)")
    shop.run()
    catalog = wt.Catalog(str(shop.warehouse))
    labels = [
        {
            snapshot.properties["widetable.barrier"]
            for snapshot in shop.table(name).snapshots()
            if snapshot.properties.get("widetable.barrier") and snapshot.commit_kind == "APPEND"
        }
        for name in ("a", "b")
    ]
    assert labels[0] & labels[1]
    with catalog.session(["shop.a", "shop.b"]) as session:
        counts = [len(session.table(name).scan().to_arrow()) for name in ("shop.a", "shop.b")]
    assert counts == [1, 1]


@pytest.mark.parametrize("identity", ["default", "full"])
def test_08_an_unchanged_big_value_stays(shop: SyncedDatabase, identity: str) -> None:
    shop.execute(f"alter table t replica identity {identity}")
    shop.execute(
        "insert into t select i, 'n', (select string_agg(md5((i * 10000 + j)::text), '') "
        "from generate_series(1, 3000) as j) from generate_series(1, 2) as i"
    )
    shop.run()
    shop.execute("update t set name = 'x' where id = 1", "update t set id = 20 where id = 2")
    shop.transaction(
        "insert into t select 3, 'n', (select string_agg(md5(j::text), '') "
        "from generate_series(1, 3000) as j)",
        "update t set id = 30, name = 'moved' where id = 3",
    )
    shop.run()
    assert [row["id"] for row in shop.target()] == [1, 20, 30]
    assert {len(row["big"]) for row in shop.target()} == {96_000}
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()


def test_11_a_truncate_empties_the_table(shop: SyncedDatabase) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 5) as i")
    shop.run()
    shop.execute("truncate t")
    shop.run()
    assert shop.target() == []
    table = shop.table()
    changes = table.changes(0, table.snapshots()[-1].id).to_pylist()
    assert [change["_row_kind"] for change in changes].count("-D") == 5


def test_12_a_table_that_is_made_while_the_job_runs(shop: SyncedDatabase) -> None:
    shop.run()
    shop.execute("create table newt (id int primary key)", "insert into newt values (1)")
    shop.run()
    shop.execute("insert into newt values (2)")
    shop.run()
    assert [row["id"] for row in shop.target("newt")] == [1, 2]


def test_13_values_arrive_as_they_are(shop: SyncedDatabase) -> None:
    shop.execute(
        "create type mood as enum ('ok', 'bad')",
        "create table v (id int primary key, price numeric(10,2), exact numeric, at timestamptz, "
        "local timestamp(3), raw bytea, list int[], m mood, doc jsonb, flag bool, code bpchar(5))",
    )
    row = (
        "(%d, 12.30, 1e30, '2026-01-02 03:04:05.678901+02', '2026-01-02 03:04:05.6789', "
        "'\\x00ff', '{1,2,null}', 'ok', '{\"a\": 1}', false, 'ab')"
    )
    shop.execute(f"insert into v values {row % 1}")
    shop.run()
    shop.execute(f"insert into v values {row % 2}")
    shop.run()
    for id, value in enumerate(shop.target("v"), 1):
        assert value == {
            "id": id,
            "price": decimal.Decimal("12.30"),
            "exact": "1000000000000000000000000000000",
            "at": datetime.datetime(2026, 1, 2, 1, 4, 5, 678901, datetime.timezone.utc),
            "local": datetime.datetime(2026, 1, 2, 3, 4, 5, 679000),
            "raw": b"\x00\xff",
            "list": [1, 2, None],
            "m": "ok",
            "doc": '{"a": 1}',
            "flag": False,
            "code": "ab",
        }
    assert len(shop.target("v")) == 2


def test_14_null_is_a_value(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a')")
    shop.run()
    shop.execute("update t set name = null")
    shop.run()
    assert [row["name"] for row in shop.target()] == [None]


def test_15_a_value_that_its_type_does_not_hold_is_an_error_row(shop: SyncedDatabase) -> None:
    shop.execute("create table n (id int primary key, amount numeric(10,2))")
    shop.run()
    shop.execute("insert into n values (1, 'NaN'), (2, 5)")
    status = shop.run()
    assert [row["id"] for row in shop.target("n")] == [2]
    assert status.errors == 1
    shop.execute("update n set amount = 7 where id = 1")
    shop.run()
    assert shop.target("n") == shop.source("n")
