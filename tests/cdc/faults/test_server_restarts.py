"""The server restarts, with and without a checkpoint, while a job copies and while it follows the log: it goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import widetable as wt
from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import wait_for
from widetable_cdc import Sync, SyncStatus

__all__ = ["server"]  # a fixture


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path) -> Iterator[SyncedDatabase]:
    with SyncedDatabase.made(server, tmp_path) as made:
        made.execute(
            "create table t (id int primary key, name varchar(20), big text)",
            "insert into t select i, 'n' || i, repeat(md5(i::text), 9) from generate_series(1, 900) i",
        )
        yield made


def _rows(shop: SyncedDatabase) -> int:
    try:
        return len(shop.target())
    except wt.NotFoundError:
        return 0


def _restarted(server: PostgresServer, *, crashes: bool) -> None:
    (server.crash if crashes else server.stop)()
    server.start()


@pytest.mark.parametrize("crashes", [False, True], ids=["fast", "immediate"])
def test_a_job_that_runs_goes_on(shop: SyncedDatabase, crashes: bool) -> None:
    """In the copy, and in the log with changes that came before and behind each restart."""
    stop = threading.Event()
    ends: list[SyncStatus] = []
    job = Sync(shop.config(limits={"chunk-rows": 90}))
    running = threading.Thread(target=lambda: ends.append(job.run(None, stop)))
    running.start()
    try:
        wait_for(lambda: _rows(shop) > 0)
        _restarted(shop.server, crashes=crashes)
        shop.execute("update t set name = 'after' where id % 3 = 0", "delete from t where id = 7")
        wait_for(lambda: shop.target() == shop.source())
        for number in range(2):
            shop.execute(f"update t set name = 'before {number}' where id % 5 = 0")
            _restarted(shop.server, crashes=crashes)
            shop.execute(f"insert into t values ({1000 + number}, 'after')")
            wait_for(lambda: shop.target() == shop.source())
    finally:
        stop.set()
        running.join()
    assert [each.status.value for status in ends for each in status.tables] == ["streaming"]
    assert shop.folded() == shop.target()
    assert shop.table().audit(start=0).ok


def test_a_run_to_an_end_bears_a_restart(shop: SyncedDatabase) -> None:
    """A server that starts again within the time for which such a run tries again."""
    job = Sync(shop.config(limits={"chunk-rows": 90}))
    job.prepare(keep=True)
    shop.server.stop()
    back = threading.Timer(0.5, shop.server.start)
    back.start()
    job.run("caught-up")
    back.join()
    assert shop.target() == shop.source()


def test_a_server_that_is_down_at_the_start_is_an_error_at_once(shop: SyncedDatabase) -> None:
    job = Sync(shop.config())
    shop.server.stop()
    try:
        for work in (job.run, job.status, job.verify):
            with pytest.raises(wt.StorageError, match="accepts connections"):
                work()
    finally:
        shop.server.start()
