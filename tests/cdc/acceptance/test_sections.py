"""Sections of a configuration whose table is not at the source."""

from __future__ import annotations

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc.running.sync_run import SyncRun


def test_a_section_that_no_pattern_takes_is_refused_before_anything_is_made(
    shop: SyncedDatabase,
) -> None:
    for name in ("other.t", "public.secret"):
        with pytest.raises(wt.InvalidError, match=f'table."{name}".*does not take.*public'):
            shop.run(tables=["public.*"], exclude=["public.secret"], table={name: {"target": "x"}})
    assert shop.execute("select count(*) from pg_replication_slots where database = current_database()") == [
        (0,)
    ]  # fmt: skip


def test_a_table_that_may_come_later_is_warned_of(
    shop: SyncedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    section = {"public.tt": {"types": {"amount": "STRING"}}}
    shop.run(table=section)
    assert "public.tt" in caplog.text
    assert "Did you mean public.t?" in caplog.text
    assert "WT-W904" in [getattr(each, "code", "") for each in caplog.records]
    shop.execute("create table tt (id int primary key, amount int)", "insert into tt values (1, 2)")
    caplog.clear()
    shop.run(table=section)
    assert shop.target("tt") == [{"id": 1, "amount": "2"}]
    shop.execute("drop table tt")
    shop.run(table=section)
    assert "WT-W904" not in [getattr(each, "code", "") for each in caplog.records]


def test_a_table_that_comes_later_and_does_not_fit_its_section_is_parked(
    shop: SyncedDatabase,
) -> None:
    job = SyncRun(shop.config(table={"public.tt": {"types": {"amont": "STRING"}}}))
    job.open()
    shop.execute("create table tt (id int primary key, amount int)", "insert into t values (1)")
    job.tables.take_in(job.link)
    state = job.tables.states["public.tt"]
    job.close()
    assert state.status.value == "parked"
    assert "'amont'" in state.reason
