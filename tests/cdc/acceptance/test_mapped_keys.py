"""Keys of other columns: shards of two databases in one target, and keys of wide tables that are named otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase, in_order
from widetable_cdc import Sync, SyncedTable, SyncStatus


@pytest.fixture
def us(server: PostgresServer, shop: SyncedDatabase, tmp_path: Path) -> Iterator[SyncedDatabase]:
    """A second database with the table t, whose job writes into the warehouse of the first one."""
    with SyncedDatabase.made(server, tmp_path) as made:
        made.warehouse = shop.warehouse
        made.execute("create table t (id int primary key, name varchar(20), big text)")
        yield made


def of(status: SyncStatus, relation: str) -> SyncedTable:
    return next(one for one in status.tables if one.relation == relation)


def entries(database: SyncedDatabase, shard: str, barriers: str = "none") -> dict[str, Any]:
    target = {
        "warehouse": str(database.warehouse),
        "database": "shop",
        "barriers": barriers,
        "options": {"widetable.fsync": "false", "changelog-producer": "lookup"},
    }
    table = {"public.t": {"key": ["shard", "id"], "computed": {"shard": f"'{shard}'"}}}
    return {"target": target, "table": table, "limits": {"chunk-rows": 10}}


def both(shop: SyncedDatabase, us: SyncedDatabase) -> list[dict[str, Any]]:
    rows = [row | {"shard": "eu"} for row in shop.source()]
    return in_order(rows + [row | {"shard": "us"} for row in us.source()])


def test_two_databases_are_shards_of_one_target(shop: SyncedDatabase, us: SyncedDatabase) -> None:
    for database, rows in ((shop, 40), (us, 25)):
        database.execute(f"insert into t select i, 'n' || i from generate_series(1, {rows}) as i")
    eu_job, us_job = entries(shop, "eu"), entries(us, "us")
    shop.run(**eu_job)
    us.run(**us_job)
    assert shop.target() == both(shop, us)
    shop.execute(
        "update t set name = 'eu' where id < 5",
        "delete from t where id = 7",
        "update t set id = 300 where id = 8",
        "insert into t values (26, null) on conflict do nothing",
    )
    us.execute("update t set name = 'us' where id = 3", "delete from t where id = 8")
    us.run(**us_job)
    shop.run(**eu_job)
    assert shop.target() == both(shop, us)
    for database, job in ((shop, eu_job), (us, us_job)):
        assert Sync(database.config(**job)).verify().is_equal
    shop.execute("truncate t", "insert into t values (1, 'again')")
    us.execute("alter table t add column more int default 5", "insert into t values (30)")
    shop.run(**eu_job)
    us.run(**us_job)
    assert [(row["shard"], row["id"]) for row in shop.target() if row["shard"] == "eu"] == [
        ("eu", 1)
    ]
    assert {row["more"] for row in shop.target() if row["shard"] == "us"} == {5}
    assert {row["more"] for row in shop.target() if row["shard"] == "eu"} == {None}
    assert Sync(us.config(**us_job)).verify().is_equal


def test_a_shard_that_is_copied_again_leaves_the_other_one_alone(
    shop: SyncedDatabase, us: SyncedDatabase
) -> None:
    shop.execute("insert into t select i, 'n' from generate_series(1, 30) as i")
    us.execute("insert into t select i, 'm' from generate_series(1, 30) as i")
    eu_job, us_job = entries(shop, "eu"), entries(us, "us")
    shop.run(**eu_job)
    us.run(**us_job)
    shop.execute("delete from t where id > 3")
    job = Sync(shop.config(**eu_job))
    job.drop_slot()
    shop.run(**eu_job)
    assert shop.target() == both(shop, us)
    shop.execute("alter table t alter column id type bigint", "insert into t values (77)")
    assert of(shop.run(**eu_job), "public.t").status.value == "parked"
    Sync(shop.config(**eu_job)).resume("public.t", recopy=True)
    status = shop.run(**eu_job)
    assert "int64" in of(status, "public.t").reason  # the target of both is not dropped
    assert [row for row in shop.target() if row["shard"] == "us"] == [
        row for row in both(shop, us) if row["shard"] == "us"
    ]


@pytest.mark.parametrize("shard", ["eu", None])
def test_two_sources_that_nothing_tells_apart_do_not_share_a_target(
    shop: SyncedDatabase, us: SyncedDatabase, shard: str | None
) -> None:
    shop.execute("insert into t values (1, 'shop')")
    us.execute("insert into t values (1, 'us')")
    eu_job = entries(shop, "eu")
    us_job = entries(us, shard or "") if shard else entries(us, "") | {"table": {}}
    shop.run(**eu_job)
    status = us.run(**us_job)
    parked = of(status, "public.t")
    assert parked.status.value == "parked"
    assert f"public.t of the job {shop.name}" in parked.reason
    assert "no constant column in both" in parked.reason
    assert [row["name"] for row in shop.target()] == ["shop"]


@pytest.mark.parametrize("barriers", ["lsn", "clock"])
def test_a_target_under_barriers_has_one_source(
    shop: SyncedDatabase, us: SyncedDatabase, barriers: str
) -> None:
    shop.run(**entries(shop, "eu", barriers))
    status = us.run(**entries(us, "us", barriers))
    assert "under barriers" in of(status, "public.t").reason
    assert 'barriers = "none"' in of(status, "public.t").reason


def test_a_schema_can_be_the_shard_of_a_job_of_its_own(shop: SyncedDatabase) -> None:
    shop.execute("create schema s", "create table s.t (id int primary key, name text, big text)")
    shop.execute("insert into t values (1, 'public')", "insert into s.t values (1, 's')")
    section = {"target": "t", "key": ["schema_name", "id"], "metadata": ["schema_name"]}
    jobs = [
        entries(shop, "")
        | {"tables": [name], "table": {name: section}, "name": f"{shop.name}_{at}"}
        for at, name in enumerate(("public.t", "s.t"))
    ]
    for job in jobs:
        shop.run(**job)
    shop.execute("delete from t", "update s.t set name = 'x'")
    for job in jobs:
        shop.run(**job)
    assert [(row["schema_name"], row["name"]) for row in shop.target()] == [("s", "x")]


# Too big for a row, so the log does not carry it where it is unchanged.
BIG = "(select string_agg(md5((i * 1000 + j)::text), '') from generate_series(1, 200) as j)"
WIDE = {"customer": "STRING", "name": "STRING", "part": "STRING", "lsn": "BIGINT", "clicks": "INT"}
OPTIONS = {
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "widetable.fsync": "false",
    "fields.lsn.sequence-group": "name,part",
}


def test_a_group_finds_its_row_by_a_key_that_is_computed(shop: SyncedDatabase) -> None:
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.wide", WIDE, primary_key=["customer"], options=OPTIONS)
    table = {
        "public.t": {
            "target": "wide",
            "key": ["customer"],
            "computed": {"customer": "cast(id as string)", "part": "substring(big, 0, 4)"},
            "group": {"columns": ["name", "part"], "sequence": "lsn"},
        }
    }
    shop.execute(f"insert into t select i, 'n' || i, {BIG} from generate_series(1, 20) as i")
    shop.run(table=table)
    shop.table("wide").write([{"customer": "1", "clicks": 5}, {"customer": "x", "clicks": 6}])
    shop.execute(
        "update t set name = 'new' where id = 1",
        "delete from t where id = 2",
        "update t set id = 200 where id = 3",
        "insert into t values (21, 'late', 'abcdefg')",
    )
    shop.run(table=table)
    rows = {row["customer"]: row for row in shop.target("wide")}
    assert [
        (customer, row["name"], row["part"]) for customer, row in rows.items() if row["name"]
    ] == sorted(shop.execute("select id::text, name, substr(big, 1, 4) from t"))
    assert (rows["1"]["clicks"], rows["x"]["clicks"]) == (5, 6)
    assert Sync(shop.config(table=table)).verify().tables[0].missing == 0


def test_a_section_that_changed_parks_its_table_until_it_is_copied_again(
    shop: SyncedDatabase,
) -> None:
    shop.execute("insert into t values (1, ' a ')")
    shop.run()
    trimmed = {"public.t": {"computed": {"tag": "trim(name)"}}}
    status = shop.run(table=trimmed)
    assert "its section says other columns" in of(status, "public.t").reason
    shop.execute("insert into t values (2, 'b ')")
    Sync(shop.config(table=trimmed)).resume("public.t", recopy=True)
    shop.run(table=trimmed)
    assert [(row["id"], row["tag"]) for row in shop.target()] == [(1, "a"), (2, "b")]
    upper = {"public.t": {"computed": {"tag": "upper(name)"}}}
    Sync(shop.config(table=upper)).resume("public.t", recopy=True)
    shop.run(table=upper)
    assert [row["tag"] for row in shop.target()] == [" A ", "B "]
