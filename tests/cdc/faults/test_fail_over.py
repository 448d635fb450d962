"""Fail-over to a standby that has synchronised the job's slot: the job goes on exactly once, or says what lacks."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import widetable as wt
from tests.support.databases.clock_targets import (
    barriers_of,
    clock_target,
    end_behind_the_first_commit,
    ids_at,
)
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from tests.support.databases.standby_server import standby_of
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import wait_for
from widetable_cdc import Sync
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask
from widetable_cdc.running.sync_run import SyncRun
from widetable_cdc.source.fail_over import switch_of


class Pair:
    """A primary, its standby, and a job whose dsn names both."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer, folder: Path) -> None:
        self.primary, self.standby = primary, standby
        primary.execute("create database shop")
        self.shop = SyncedDatabase(primary, "shop", folder / "warehouse")
        self.shop.execute(
            "create table t (id int primary key, name text)",
            "insert into t select i, 'first' from generate_series(1, 100) i",
        )

    def run(self, **entries: object) -> None:
        dsn = (
            f"host=127.0.0.1,127.0.0.1 port={self.primary.port},{self.standby.port} user=postgres "
            "dbname=shop target_session_attrs=read-write"
        )
        self.shop.run(source={"dsn": dsn}, **entries)

    def synchronise(self, **entries: object) -> None:
        """Let the standby make its copy of the job's slot: it can once the job has passed where the standby begins."""
        synced = "select synced and not temporary from pg_replication_slots where not slot_type = 'physical'"

        def is_synced() -> bool:
            self.primary.execute(
                "select pg_log_standby_snapshot()", "create table if not exists x ()"
            )
            self.run(**entries)
            self.catch_up()
            self.standby.execute("select pg_sync_replication_slots()")
            return self.standby.execute(synced) == [(True,)]

        wait_for(is_synced)

    def catch_up(self) -> None:
        """Let the standby come up to the primary."""
        ((lsn,),) = self.primary.execute("select pg_current_wal_flush_lsn()::text")
        replayed = f"select pg_last_wal_replay_lsn() >= '{lsn}'"
        wait_for(lambda: self.standby.execute(replayed) == [(True,)])

    def fail_over(self) -> SyncedDatabase:
        """Lose the primary, promote the standby, and return its database."""
        self.primary.crash()
        self.standby.execute("select pg_promote(true)")
        self.shop = SyncedDatabase(self.standby, "shop", self.shop.warehouse)
        return self.shop


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with postgres_server() as primary, standby_of(primary, "standby") as standby:
        yield Pair(primary, standby, tmp_path)
        if not primary.is_up():
            primary.start()  # what ends it expects it to run


def test_a_job_follows_the_standby_that_took_over(pair: Pair) -> None:
    """Its slot is behind there: what was applied since comes again, and is skipped."""
    pair.run()
    pair.shop.execute("update t set name = 'second' where id <= 50")
    pair.run()
    pair.synchronise()
    pair.shop.execute("update t set name = 'third' where id <= 25", "delete from t where id = 100")
    pair.run()
    pair.shop.execute("insert into t values (200, 'not applied before the fail-over')")
    pair.catch_up()
    shop = pair.fail_over()
    shop.execute("insert into t values (201, 'behind it')", "delete from t where id = 1")
    pair.run()
    assert shop.target() == shop.source()
    assert len(shop.target()) == 100
    assert shop.folded() == shop.target()
    shop.execute("insert into t values (202, 'later')")
    pair.run()
    assert shop.target() == shop.source()


def test_a_round_that_is_in_one_of_two_tables_keeps_its_barrier_behind_a_fail_over(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot of the standby is behind it: earlier rounds come again with it, and are skipped."""
    target = clock_target(pair.shop)
    pair.shop.execute("create table u (id int primary key, name text)")
    pair.run(target=target)
    pair.synchronise(target=target)
    both = "insert into t values ({0}, ''); insert into u values ({0}, '')"
    pair.shop.transaction(both.format(200))
    pair.run(target=target)
    pair.shop.transaction(both.format(201))
    with monkeypatch.context() as patch:
        end_behind_the_first_commit(patch)
        with pytest.raises(KeyboardInterrupt):
            pair.run(target=target)
    has = [201 in {row["id"] for row in pair.shop.target(name)} for name in ("t", "u")]
    assert sorted(has) == [False, True]
    first = max(max(barriers_of(pair.shop.table(name))) for name in ("t", "u"))
    pair.catch_up()
    shop = pair.fail_over()
    shop.transaction(both.format(202))
    pair.run(target=target)
    for name in ("t", "u"):
        assert shop.target(name) == shop.source(name)
        assert shop.table(name).audit(start=0).ok
    common = barriers_of(shop.table("t")) & barriers_of(shop.table("u"))
    readable = [barrier for barrier in sorted(common) if barrier >= first]
    assert first in readable
    for barrier in readable:
        ours, others = ids_at(shop, ["t", "u"], barrier)
        assert [each for each in ours if each >= 200] == others
        assert 201 in others
    assert 202 in ids_at(shop, ["t", "u"], None)[1]


def _next_one(tasks: Iterator[ChunkTask]) -> Iterator[tuple[ChunkTask, ChunkOutcome]]:
    for task in itertools.islice(tasks, 1):
        yield task, task.run()


def test_a_copy_that_was_not_over_begins_anew(pair: Pair) -> None:
    pair.synchronise()
    Sync(pair.shop.config()).resume("public.t", recopy=True)
    job = SyncRun(pair.shop.config(limits={"chunk-rows": 40}), _next_one)
    job.open()
    assert job.copy(threading.Event())
    assert job.tables.copying()
    job.close()
    pair.catch_up()
    shop = pair.fail_over()
    shop.execute("delete from t where id = 1")
    pair.run(limits={"chunk-rows": 40})
    assert shop.target() == shop.source()


def test_changes_that_the_standby_never_got_are_named(pair: Pair) -> None:
    pair.run()
    pair.synchronise()
    pair.standby.stop()
    pair.shop.execute("insert into t values (300, 'lost')")
    pair.run()
    pair.primary.crash()
    pair.standby.start()
    pair.standby.execute("select pg_promote(true)")
    with pytest.raises(wt.InvalidError, match=r"timeline 2, for which timeline 1 is left at"):
        pair.run()


@pytest.mark.parametrize("makes_one", [False, True])
def test_without_the_slot_of_the_primary_the_job_says_so(pair: Pair, makes_one: bool) -> None:
    pair.run()
    pair.catch_up()
    shop = pair.fail_over()
    if makes_one:
        shop.execute(
            f"select pg_create_logical_replication_slot('widetable_{shop.name}', 'pgoutput')"
        )
    with pytest.raises(wt.InvalidError, match=r"fail-over, with.*slot"):
        pair.run()


def test_a_history_says_where_each_timeline_ends() -> None:
    """The example of PostgreSQL's documentation, and what a restore writes."""
    text = "1\t0/3000148\tno recovery target specified\n\n2\tA/1F\tbefore 2026-01-01\n"
    assert switch_of(text, 1) == 0x3000148
    assert switch_of(text, 2) == (0xA << 32) + 0x1F
    assert switch_of(text, 3) is None
