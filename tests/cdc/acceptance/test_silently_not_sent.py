"""What a server does not send and does not say: filters, tables that were out of the publication, another cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from tests.support.databases.postgres_server import postgres_server
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync


def test_a_table_of_which_rows_are_filtered_is_parked(shop: SyncedDatabase) -> None:
    shop.execute(
        "create table u (id int primary key)",
        f"create publication widetable_{shop.name} for table t where (id > 5), u",
        "insert into t values (1), (9)",
        "insert into u values (1)",
    )
    status = shop.run()
    parked = {one.relation: one.reason for one in status.tables if one.status.value == "parked"}
    assert list(parked) == ["public.t"]
    assert "id > 5" in parked["public.t"]
    assert [row["id"] for row in shop.target("u")] == [1]


def test_changes_while_a_table_was_out_of_the_publication_arrive(shop: SyncedDatabase) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 20) as i")
    shop.run()
    publication = f"alter publication widetable_{shop.name}"
    shop.execute(
        f"{publication} drop table t",
        "update t set name = 'unseen' where id = 3",
        "delete from t where id = 4",
        f"{publication} add table t",
        "insert into t values (30)",
    )
    shop.run()
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()


def test_the_same_database_of_another_cluster_is_refused(
    shop: SyncedDatabase, tmp_path: Path
) -> None:
    shop.execute("insert into t values (1)")
    shop.run()
    with postgres_server() as other:
        other.execute(f"create database {shop.name}")
        elsewhere = shop.config(source={"dsn": other.dsn_of(shop.name)})
        with pytest.raises(wt.InvalidError, match="cluster") as refused:
            Sync(elsewhere).run("caught-up")
    assert "drop-slot" in str(refused.value) or "drop the slot" in str(refused.value)
    assert len(shop.target()) == 1


def test_a_table_without_a_key_is_parked_and_keeps_its_writes(shop: SyncedDatabase) -> None:
    shop.execute("create table keyless (a int)", "insert into keyless values (1)")
    status = shop.run()
    parked = {one.relation: one.reason for one in status.tables if one.status.value == "parked"}
    assert "no primary key" in parked["public.keyless"]
    shop.execute("update keyless set a = 2", "delete from keyless")
    shop.run()


def test_a_table_that_is_made_again_is_parked(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    shop.run()
    shop.execute("drop table t", "create table t (id int primary key)", "insert into t values (2)")
    shop.run()
    Sync(shop.config()).resume("public.t", recopy=True)
    shop.run()
    assert [row["id"] for row in shop.target()] == [2]


def test_a_target_that_is_ahead_of_a_new_server_is_parked(
    shop: SyncedDatabase, tmp_path: Path
) -> None:
    with postgres_server() as other:
        other.execute(f"create database {shop.name}")
        elsewhere = shop.config(source={"dsn": other.dsn_of(shop.name)})
        other.execute(
            "create table t (id int primary key, name text, big text)", database=shop.name
        )
        other.execute("insert into t values (7, 'new')", database=shop.name)
        lsn = "select pg_current_wal_lsn() - '0/0'::pg_lsn"
        while shop.execute(lsn) <= other.execute(lsn):
            shop.execute("select pg_logical_emit_message(true, 'x', 'x')", "select pg_switch_wal()")
        shop.execute("insert into t values (1)")
        shop.run()
        shop.execute("insert into t values (2)")
        shop.run()
        Sync(shop.config()).drop_slot()
        status = Sync(elsewhere).run("caught-up")
        assert [one.status.value for one in status.tables] == ["parked"]
        assert "another server" in status.tables[0].reason
        wt.Catalog(str(shop.warehouse)).drop_table("shop.t")
        Sync(elsewhere).run("caught-up")
        assert [row["id"] for row in shop.target()] == [7]
