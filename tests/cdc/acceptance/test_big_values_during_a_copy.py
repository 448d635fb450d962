"""Case 22: big values that a change does not carry, in every order of chunk and change."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import widetable as wt
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.round import RoundCounts, run_round
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask
from widetable_cdc.running.sync_run import SyncRun

ROWS = (
    "insert into t select i, 'n' || i, (select string_agg(md5((i * 10000 + j)::text), '') "
    "from generate_series(1, 3000) as j) from generate_series(1, 8) as i"
)


def next_one(tasks: Iterator[ChunkTask]) -> Iterator[tuple[ChunkTask, ChunkOutcome]]:
    for task in itertools.islice(tasks, 1):
        yield task, task.run()


class HaltedJob:
    """A job whose rounds and chunks are run one by one."""

    def __init__(self, run: SyncRun) -> None:
        self._link, self._tables, self._run = run.link, run.tables, run

    @property
    def table(self) -> CapturedTable:
        (table,) = self._tables._open.values()
        return table

    def round(self) -> None:
        run_round(self._link, self._tables, RoundCounts())
        self._tables.end_copies(self._link.position)

    def chunk(self) -> None:
        assert self._run.copy(threading.Event())


@contextmanager
def halted(shop: SyncedDatabase) -> Iterator[HaltedJob]:
    run = SyncRun(shop.config(limits={"chunk-rows": 4}), next_one)
    run.open()
    try:
        job = HaltedJob(run)
        assert job.table.plan is not None
        assert len(job.table.plan.states) == 2
        yield job
    finally:
        run.close()


def check(shop: SyncedDatabase) -> None:
    shop.run(limits={"chunk-rows": 4})
    assert shop.target() == shop.source()
    assert all(row["big"] is None or len(row["big"]) == 96_000 for row in shop.target())
    errors = [
        name for name in wt.Catalog(str(shop.warehouse)).list_tables("shop") if "errors" in name
    ]
    assert errors == []


CHANGES = {
    "within the first chunk": ["update t set name = 'x' where id = 1"],
    "within the last chunk": ["update t set name = 'x' where id = 8"],
    "a key that moves up": ["update t set id = 100 where id = 1"],
    "a key that moves down": ["update t set id = -100 where id = 8"],
    "up and down again": [
        "update t set id = 100 where id = 1",
        "update t set id = 1 where id = 100",
    ],
    "up, and a change of it": [
        "update t set id = 100 where id = 1",
        "update t set name = 'x' where id = 100",
    ],
    "up, and its old key taken by another row": [
        "update t set id = 100 where id = 1",
        "insert into t values (1, 'other', null)",
    ],
    "up, and deleted": ["update t set id = 100 where id = 1", "delete from t where id = 100"],
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(
    "order", ["change, both chunks", "one chunk, change, the other", "both, change"]
)
def test_22_a_big_value_is_kept(shop: SyncedDatabase, name: str, order: str) -> None:
    shop.execute(ROWS, "analyze t")
    with halted(shop) as job:
        chunks = {"c": 0, "o": 1, "b": 2}[order[0]]
        for _ in range(chunks):
            job.chunk()
        shop.execute(*CHANGES[name])
        job.round()
        for _ in range(2 - chunks):
            job.chunk()
        job.round()
    check(shop)


@pytest.mark.parametrize("name", CHANGES)
def test_22_a_change_that_one_chunk_has_seen(shop: SyncedDatabase, name: str) -> None:
    """The change comes between the two chunks, and its round behind both."""
    shop.execute(ROWS, "analyze t")
    with halted(shop) as job:
        job.chunk()
        shop.execute(*CHANGES[name])
        job.chunk()
        job.round()
    check(shop)
