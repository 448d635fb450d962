"""Cases 3, 4, 16 to 19, 22, 23 and 25: killed jobs, the slot and its dangers, large transactions, several jobs."""

from __future__ import annotations

import pytest

import widetable as wt
from tests.support.databases.postgres_server import postgres_server
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync


def test_17_a_second_job_on_the_slot_is_refused(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    first = Sync(shop.config())
    first.prepare(keep=True)
    try:
        with pytest.raises(wt.InvalidError, match=r"widetable_case_\d+.*(process|pid) \d+"):
            shop.run()
    finally:
        first.close()
    shop.run()
    assert len(shop.target()) == 1


def test_18_an_idle_job_does_not_hold_the_log_of_others(shop: SyncedDatabase) -> None:
    shop.run()
    shop.server.execute("drop table if exists elsewhere", "create table elsewhere (big text)")
    for _ in range(4):
        shop.server.execute(
            "insert into elsewhere select repeat(md5(i::text), 60) from generate_series(1, 16000) as i"
        )
        status = shop.run()
    shop.server.execute("drop table elsewhere")
    assert status.held_bytes < 64 << 20


def test_19_a_lost_slot_is_told_with_the_way_on(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with (
        postgres_server(**settings) as server,
        SyncedDatabase.made(server, tmp_path_factory.mktemp("lost")) as shop,
    ):
        shop.execute("create table t (id int primary key, big text)", "insert into t values (1)")
        shop.run()
        for _ in range(8):
            shop.execute(
                "insert into t select i, repeat(md5(i::text), 60) from generate_series(2, 9000) as i",
                "delete from t where id > 1",
                "checkpoint",
                "select pg_switch_wal()",
            )
        shop.execute("checkpoint")
        with pytest.raises(wt.InvalidError, match="lost") as refused:
            shop.run()
        assert "drop-slot" in str(refused.value)
        Sync(shop.config()).drop_slot()
        shop.run()
        assert shop.target() == shop.source()


def test_23_a_table_that_is_added_while_the_job_is_down(shop: SyncedDatabase) -> None:
    shop.run()
    shop.execute("create table late (id int primary key)", "insert into late values (1), (2)")
    shop.execute("update late set id = 20 where id = 2", "delete from late where id = 1")
    shop.run()
    assert [row["id"] for row in shop.target("late")] == [20]
    shop.execute("insert into late values (3)")
    shop.run()
    assert [row["id"] for row in shop.target("late")] == [3, 20]


def test_a_slot_that_is_gone_is_not_made_again_in_silence(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    shop.run()
    shop.execute(f"select pg_drop_replication_slot('widetable_{shop.name}')")
    shop.execute("insert into t values (2)")
    with pytest.raises(wt.InvalidError, match="slot"):
        shop.run()


def test_a_job_writes_nothing_where_nothing_changed(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    shop.run()
    before = shop.table().snapshots()[-1].id
    shop.run()
    assert shop.table().snapshots()[-1].id == before


def test_a_target_that_somebody_dropped_is_made_and_copied_again(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a')")
    shop.run()
    wt.Catalog(str(shop.warehouse)).drop_table("shop.t")
    shop.execute("insert into t values (2, 'b')")
    with pytest.raises(wt.NotFoundError, match=r"shop\.t"):
        shop.run()
    Sync(shop.config()).resume("public.t", recopy=True)
    shop.run()
    assert shop.target() == shop.source()


def test_a_table_that_streams_is_copied_again_on_demand(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1, 'a')")
    target = {"warehouse": str(shop.warehouse), "database": "shop", "barriers": "none"}
    shop.run(target=target)
    shop.table().write([{"id": 1, "name": "wrong"}, {"id": 7, "name": "wrong"}])
    Sync(shop.config(target=target)).resume("public.t", recopy=True)
    shop.run(target=target)
    assert shop.target() == shop.source()
