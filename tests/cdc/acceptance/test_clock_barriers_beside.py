"""Targets under barriers of the clock, beside revisions of what is made of them, and branches."""

from __future__ import annotations

import threading

import pytest

import widetable as wt
from tests.support.databases.clock_targets import (
    GROUPS,
    INTERVAL,
    WIDE,
    barriers_of,
    by_clock,
    ids_at,
)
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc import Sync, SyncConfig
from widetable_cdc.running.sync_run import SyncRun

CLICKS = ["clicks", "click_seq"]


def wide_config(shop: SyncedDatabase, target: str = "wide") -> SyncConfig:
    """Make the wide table, and the source of one of its groups."""
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.wide", WIDE, primary_key=["id"], options=INTERVAL | GROUPS)
    shop.execute("drop table t", "create table crm (id int primary key, name text)")
    shop.execute("insert into crm values (1, 'Ann')")
    group = {"columns": ["name"], "sequence": "crm_lsn"}
    return by_clock(shop, table={"public.crm": {"target": target, "group": group}})


def made_of(catalog: wt.Catalog, job: str, source: str, sink: str) -> None:
    """Register a job in Python. source, sink: tables."""
    columns = CLICKS if sink == "shop.wide" else None
    catalog.topology().register(job, sources=[source], sinks={sink: columns})
    catalog.topology().running(job)


def names(table: wt.Table) -> list[tuple[int, str | None, int | None]]:
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    return [(row["id"], row["name"], row["clicks"]) for row in rows]


def test_a_job_that_runs_goes_on_beside_a_revision_of_what_is_made_of_its_table(
    shop: SyncedDatabase,
) -> None:
    shop.execute("insert into t values (1, 'a', 'b')")
    catalog = wt.Catalog(str(shop.warehouse))
    run, stop = SyncRun(by_clock(shop)), threading.Event()
    run.follow("caught-up", stop)
    first = max(barriers_of(shop.table()))
    catalog.create_table("shop.made", {"id": "INT"}, primary_key=["id"], options=INTERVAL)
    made_of(catalog, "q", "shop.t", "shop.made")
    writer = catalog.writer("shop.made", "q")
    writer.write([{"id": 1}], barrier=first, complete=True)
    shop.execute("insert into t values (2, 'a', 'b')")
    run.follow("caught-up", stop)
    second = max(barriers_of(shop.table()))
    writer.write([{"id": 2}], barrier=second, complete=True)
    assert ids_at(shop, ["t", "made"], None) == [[1, 2], [1, 2]]
    assert [each.table for each in catalog.revise("shop.made", to=first).tables] == ["shop.made"]
    assert ids_at(shop, ["t", "made"], None) == [[1], [1]]
    shop.execute("insert into t values (3, 'a', 'b')")
    run.follow("caught-up", stop)
    run.close()
    third = max(barriers_of(shop.table()))
    again = catalog.writer("shop.made", "q")
    again.write([{"id": 2}, {"id": 3}], barrier=third, complete=True)
    assert ids_at(shop, ["t", "made"], None) == [[1, 2, 3], [1, 2, 3]]
    assert shop.target() == shop.source()
    assert shop.table().audit(start=0).ok


def test_a_wide_table_is_taken_back_when_the_job_has_left_it(shop: SyncedDatabase) -> None:
    config = wide_config(shop)
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.events", {"id": "INT"}, primary_key=["id"], options=INTERVAL)
    made_of(catalog, "q", "shop.events", "shop.wide")
    events, clicks = catalog.writer("shop.events", "e"), catalog.writer("shop.wide", "q", CLICKS)
    Sync(config).run("caught-up")
    wide = catalog.table("shop.wide")
    first = max(barriers_of(wide))
    events.complete(first)
    clicks.write([{"id": 1, "clicks": 5, "click_seq": 1}], barrier=first, complete=True)
    shop.execute("update crm set name = 'Bo'", "insert into crm values (2, 'Cy')")
    Sync(config).run("caught-up")
    later = max(barriers_of(wide))
    events.complete(later)
    clicks.write([{"id": 1, "clicks": 6, "click_seq": 2}], barrier=later, complete=True)
    with pytest.raises(wt.InvalidError, match=rf"{config.user}, whose rows from outside"):
        catalog.revise("shop.wide", to=first)
    Sync(config).drop_slot()
    catalog.revise("shop.wide", to=first)
    assert names(wide) == [(1, "Ann", 5)]
    shop.execute("update crm set name = 'Di' where id = 2")
    Sync(config).run("caught-up")
    assert names(wide) == [(1, "Bo", 5), (2, "Di", None)]
    newest = max(barriers_of(wide))
    again = catalog.writer("shop.wide", "q", CLICKS)
    events.complete(newest)
    again.write([{"id": 1, "clicks": 7, "click_seq": 3}], barrier=newest, complete=True)
    with catalog.session(["shop.wide", "shop.events"]) as session:
        assert session.barrier == newest
        assert session.table("shop.wide").scan().to_arrow()["clicks"].to_pylist() == [7, None]
    assert wide.audit(start=0).ok


def test_a_job_goes_on_beside_a_branch_of_its_wide_table(shop: SyncedDatabase) -> None:
    config = wide_config(shop)
    catalog = wt.Catalog(str(shop.warehouse))
    Sync(config).run("caught-up")
    wide = catalog.table("shop.wide")
    wide.create_tag("before")
    wide.create_branch("fixes", tag="before")
    branch = catalog.table("shop.wide$branch_fixes")
    with catalog.writer("shop.wide$branch_fixes", "fixer", CLICKS) as fixes:
        fixes.write([{"id": 1, "clicks": 5, "click_seq": 1}])
    shop.execute("update crm set name = 'Bo'", "insert into crm values (2, 'Cy')")
    Sync(config).run("caught-up")
    assert names(wide) == [(1, "Bo", None), (2, "Cy", None)]
    assert ids_at(shop, ["wide"], None) == [[1, 2]]
    assert names(branch) == [(1, "Ann", 5)]
    Sync(config).drop_slot()
    # A branch is a history of its own: only who opens it lets the job leave it.
    assert branch.inspect.barriers()["writer"].to_pylist() == [config.user]
    assert wide.audit(start=0).ok


def test_a_job_fills_its_group_in_a_branch(shop: SyncedDatabase) -> None:
    """So a section can be tried before the wide table has its rows."""
    config = wide_config(shop, "wide$branch_try")
    catalog = wt.Catalog(str(shop.warehouse))
    wide = catalog.table("shop.wide")
    clicks = catalog.writer("shop.wide", "clicks", CLICKS)
    clicks.write([{"id": 1, "clicks": 5, "click_seq": 1}], barrier=200, complete=True)
    wide.create_tag("before")
    wide.create_branch("try", tag="before")
    Sync(config).run("caught-up")
    shop.execute("insert into crm values (2, 'Cy')")
    Sync(config).run("caught-up")
    branch = catalog.table("shop.wide$branch_try")
    assert names(branch) == [(1, "Ann", 5), (2, "Cy", None)]
    assert names(wide) == [(1, None, 5)]
    assert sorted(branch.inspect.barriers()["writer"].to_pylist()) == [config.user, "clicks"]
    assert wide.inspect.barriers()["writer"].to_pylist() == ["clicks"]
    assert Sync(config).verify().is_equal
    Sync(config).drop_slot()
    assert branch.inspect.barriers()["writer"].to_pylist() == ["clicks"]
