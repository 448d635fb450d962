"""A transaction alters a table and stays open: the job says so, and goes on when it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import widetable as wt
from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import wait_for
from widetable_cdc import Sync
from widetable_cdc.source.publication import Publication

__all__ = ["server"]  # a fixture


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path) -> Iterator[SyncedDatabase]:
    with SyncedDatabase.made(server, tmp_path) as made:
        made.execute(
            "create table t (id int primary key, name text)", "insert into t values (1, 'a')"
        )
        yield made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Publication.__init__, "__defaults__", (0.1,))


@pytest.mark.usefixtures("impatient")
def test_a_job_that_starts_beside_a_locked_table_ends_with_what_to_do(shop: SyncedDatabase) -> None:
    with psycopg.connect(shop.dsn) as other:
        other.execute("alter table t add column more int")
        with pytest.raises(wt.StorageError, match=r"lock timeout.*End that transaction"):
            shop.run()
        other.commit()
    shop.run()
    assert shop.target() == shop.source()


@pytest.mark.usefixtures("impatient")
def test_a_job_that_runs_says_so_and_goes_on(
    shop: SyncedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """It looks again at what is published when a table appears; that waits for the one that is locked."""
    stop, errors = threading.Event(), []

    def run() -> None:
        try:
            Sync(shop.config()).run(None, stop)
        except wt.WidetableError as error:
            errors.append(error)

    running = threading.Thread(target=run)
    running.start()
    try:
        wait_for(lambda: bool(errors) or _is_equal(shop))
        with psycopg.connect(shop.dsn) as other:
            other.execute("alter table t add column more int")
            shop.execute("create table s (id int primary key)", "insert into s values (1)")
            wait_for(lambda: bool(errors) or _warned(caplog))
            other.commit()
        shop.execute("insert into t values (2, 'b', 3)")
        wait_for(lambda: bool(errors) or (_is_equal(shop) and _is_equal(shop, "s")))
    finally:
        stop.set()
        running.join()
    assert errors == []


def _is_equal(shop: SyncedDatabase, name: str = "t") -> bool:
    try:
        return shop.target(name) == shop.source(name)
    except wt.NotFoundError:
        return False


def _warned(caplog: pytest.LogCaptureFixture) -> bool:
    return any("lock timeout" in each.getMessage() for each in caplog.records)
