"""Targets under barriers of the clock: a database, and streams beside it, are read at one moment."""

from __future__ import annotations

import itertools
import time

import pytest

import widetable as wt
from tests.support.databases.clock_targets import (
    GROUPS,
    INTERVAL,
    WIDE,
    barriers_of,
    by_clock,
    end_behind_the_first_commit,
    ids_at,
)
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import wait_for
from widetable_cdc import Sync
from widetable_cdc.jobs.captured_tables import CapturedTables

# A barrier that no job reaches by the clock.
LATER = 4_000_000_000_000


def test_a_job_that_ends_leaves_its_last_rows_readable_at_a_barrier(shop: SyncedDatabase) -> None:
    shop.execute("create table u (id int primary key)")
    shop.transaction("insert into t values (1)", "insert into u values (1)")
    Sync(by_clock(shop)).run("caught-up")
    shop.transaction("insert into t values (2)", "insert into u values (2)")
    Sync(by_clock(shop)).run("caught-up")
    assert ids_at(shop, ["t", "u"], None) == [[1, 2], [1, 2]]
    now_millis = time.time_ns() // 1_000_000
    assert abs(max(barriers_of(shop.table("t"))) - now_millis) < 3_600_000, "an LSN is far below"


def test_a_job_killed_between_two_tables_gives_both_one_barrier(
    shop: SyncedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("create table u (id int primary key)")
    Sync(by_clock(shop)).run("caught-up")
    shop.transaction("insert into t values (1)", "insert into u values (1)")
    with monkeypatch.context() as patch:
        end_behind_the_first_commit(patch)
        with pytest.raises(KeyboardInterrupt):
            Sync(by_clock(shop)).run("caught-up")
    before = [shop.table(name).scan().to_arrow().num_rows for name in ("t", "u")]
    assert sorted(before) == [0, 1]
    first = max(max(barriers_of(shop.table(name))) for name in ("t", "u"))
    wait_for(lambda: time.time_ns() // 1_000_000 > first + 400)
    shop.transaction("insert into t values (2)", "insert into u values (2)")
    Sync(by_clock(shop)).run("caught-up")
    common = barriers_of(shop.table("t")) & barriers_of(shop.table("u"))
    readable = [barrier for barrier in sorted(common) if barrier >= first]
    assert first in readable
    for barrier in readable:
        ours, others = ids_at(shop, ["t", "u"], barrier)
        assert ours == others
    assert ids_at(shop, ["t", "u"], first) == [[1], [1]]
    assert ids_at(shop, ["t", "u"], None) == [[1, 2], [1, 2]]


def test_a_group_of_a_wide_table_is_read_at_one_barrier_with_other_streams(
    shop: SyncedDatabase,
) -> None:
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.wide", WIDE, primary_key=["id"], options=INTERVAL | GROUPS)
    shop.execute("drop table t", "create table crm (id int primary key, name text)")
    group = {"columns": ["name"], "sequence": "crm_lsn"}
    config = by_clock(shop, table={"public.crm": {"target": "wide", "group": group}})
    shop.execute("insert into crm values (1, 'Ann'), (2, 'Bob')")
    clicks = catalog.writer("shop.wide", "clicks", ["clicks", "click_seq"])
    clicks.write([{"id": 1, "clicks": 5, "click_seq": 1}])
    Sync(config).run("caught-up")
    assert clicks.complete().committed
    with catalog.session(["shop.wide"]) as session:
        rows = session.table("shop.wide").scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["name"], row["clicks"]) for row in rows] == [
        (1, "Ann", 5),
        (2, "Bob", None),
    ]
    waited_for = catalog.table("shop.wide").inspect.barriers()["writer"].to_pylist()
    assert sorted(waited_for) == sorted([config.user, "clicks"])


def test_copied_rows_of_a_job_that_ends_within_one_interval_are_readable_at_a_barrier(
    shop: SyncedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    hourly = INTERVAL | {"widetable.barrier-interval": "1 h"}
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.wide", WIDE, primary_key=["id"], options=hourly | GROUPS)
    shop.execute("drop table t", "create table crm (id int primary key, name text)")
    shop.execute("insert into crm values (1, 'Ann')")
    group = {"columns": ["name"], "sequence": "crm_lsn"}
    entries = {"public.crm": {"target": "wide", "group": group}}
    _let_copies_end_late(monkeypatch)
    Sync(by_clock(shop, table=entries)).run("caught-up")
    assert ids_at(shop, ["wide"], None) == [[1]]
    shop.execute("insert into crm values (2, 'Bob')")
    Sync(by_clock(shop, table=entries)).run("caught-up")
    assert ids_at(shop, ["wide"], None) == [[1, 2]]


def _let_copies_end_late(patch: pytest.MonkeyPatch) -> None:
    """Let the barrier be due while tables are still copied, as on a machine that has much to do."""
    end_copies, calls = CapturedTables.end_copies, itertools.count()

    def late(tables: CapturedTables, position: int) -> None:
        if next(calls) >= 3:
            end_copies(tables, position)

    patch.setattr(CapturedTables, "end_copies", late)


@pytest.mark.parametrize("status", ["streaming", "paused", "parked", "gone"])
def test_a_wide_table_does_not_wait_for_a_job_whose_slot_was_dropped(
    shop: SyncedDatabase, status: str
) -> None:
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.wide", WIDE, primary_key=["id"], options=INTERVAL | GROUPS)
    shop.execute("drop table t", "create table crm (id int primary key, name text)")
    group = {"columns": ["name"], "sequence": "crm_lsn"}
    job = Sync(by_clock(shop, table={"public.crm": {"target": "wide", "group": group}}))
    job.run("caught-up")
    if status == "paused":
        job.pause("public.crm")
    elif status == "parked":
        shop.execute("alter table crm drop column name", "insert into crm values (1)")
    elif status == "gone":
        shop.execute("drop table crm")
    (table,) = job.run("caught-up").tables
    assert table.status.value == status
    assert catalog.table("shop.wide").inspect.barriers().num_rows == 1
    clicks = catalog.writer("shop.wide", "clicks", ["clicks", "click_seq"])
    clicks.write([{"id": 1, "clicks": 5, "click_seq": 1}], barrier=LATER, complete=True)
    job.drop_slot()
    assert catalog.table("shop.wide").inspect.barriers()["writer"].to_pylist() == ["clicks"]
    with catalog.session(["shop.wide"], as_of=LATER) as session:
        assert session.table("shop.wide").scan().to_arrow()["clicks"].to_pylist() == [5]


def test_drop_slot_bears_a_wide_table_that_somebody_dropped(shop: SyncedDatabase) -> None:
    shop.execute("insert into t values (1)")
    job = Sync(by_clock(shop))
    job.run("caught-up")
    wt.Catalog(str(shop.warehouse)).drop_table("shop.t")
    job.drop_slot()
    job.run("caught-up")
    assert ids_at(shop, ["t"], None) == [[1]]
