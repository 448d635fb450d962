"""What a job leaves at its server and in its warehouse: no published table that it refused, no state before it ran."""

from __future__ import annotations

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync


def published(shop: SyncedDatabase) -> list[str]:
    rows = shop.execute(
        f"select tablename::text from pg_publication_tables where pubname = 'widetable_{shop.name}' order by 1"
    )
    return [name for (name,) in rows]


def test_a_refused_table_is_taken_out_of_the_publication(shop: SyncedDatabase) -> None:
    shop.execute("create table u (id int primary key, name text)", "insert into u values (1, 'a')")
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.u", {"name": "STRING NOT NULL"}, primary_key=["name"])
    shop.run()
    assert published(shop) == ["t"]
    shop.run()
    assert published(shop) == ["t"]
    shop.execute("update u set name = 'b'")
    catalog.drop_table("shop.u")
    shop.run()
    assert published(shop) == ["t", "u"]
    shop.execute("insert into u values (2, 'c')")
    shop.run()
    assert shop.target("u") == shop.source("u")


def test_the_slot_of_a_running_job_is_not_dropped(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    job = Sync(shop.config())
    job.prepare(keep=True)
    try:
        pids = [
            pid
            for (pid,) in shop.execute(
                "select pid from pg_stat_activity where datname = current_database()"
            )
        ]
        with pytest.raises(
            wt.InvalidError, match=r"widetable_case_\d+.*session with pid \d+"
        ) as refused:
            Sync(shop.config()).drop_slot()
        assert any(f"pid {pid} " in str(refused.value) for pid in pids)
    finally:
        job.close()
    Sync(shop.config()).drop_slot()
    assert published(shop) == []
    assert (
        shop.execute("select 1 from pg_replication_slots where database = current_database()") == []
    )


def test_the_status_of_a_job_that_never_ran_writes_nothing(shop: SyncedDatabase) -> None:
    status = Sync(shop.config()).status()
    assert (status.tables, status.wal_status) == ((), None)
    assert wt.Catalog(str(shop.warehouse)).list_databases() == []
    assert Sync(shop.config()).verify().tables == ()
    assert not shop.warehouse.exists()
