"""The disk of the warehouse is full: a run to an end says so, one without an end waits, and both go on with room."""

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
from tests.support.faults.small_disk import fill, small_disk
from widetable_cdc import Sync

__all__ = ["server", "small_disk"]  # fixtures


@pytest.fixture
def shop(server: PostgresServer, small_disk: Path) -> Iterator[SyncedDatabase]:
    with SyncedDatabase.made(server, small_disk) as made:
        made.execute(
            "create table t (id int primary key, name text)",
            "insert into t select i, 'first' from generate_series(1, 100) i",
        )
        yield made


@pytest.mark.parametrize("stage", ["copy", "log"])
def test_a_run_to_an_end_names_the_full_disk(
    shop: SyncedDatabase, small_disk: Path, stage: str
) -> None:
    job = Sync(shop.config(limits={"retry-for": "1 ms"}))
    if stage == "log":
        shop.run()
        shop.execute("update t set name = 'second'")
    job.prepare(keep=True)
    filler = fill(small_disk)
    with pytest.raises(wt.StorageError, match="No space left"):
        job.run("caught-up")
    filler.unlink()
    shop.run()
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()


def test_a_job_without_an_end_goes_on_when_there_is_room(
    shop: SyncedDatabase, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop.run()
    stop = threading.Event()
    running = threading.Thread(target=Sync(shop.config()).run, args=(None, stop))
    running.start()
    try:
        filler = fill(small_disk)
        shop.execute("update t set name = 'second'")
        wait_for(lambda: "No space left" in caplog.text)
        filler.unlink()
        wait_for(lambda: shop.target() == shop.source())
    finally:
        stop.set()
        running.join()
    assert "WT-W905" in {getattr(record, "code", None) for record in caplog.records}
