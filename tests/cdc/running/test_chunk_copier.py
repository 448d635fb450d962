"""Chunks that are copied beside one another: each is committed once, a failed one takes no other one with it."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable_cdc import Sync
from widetable_cdc.applying.chunk_files import ChunkFiles
from widetable_cdc.running import chunk_task
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask
from widetable_cdc.running.sync_run import SyncRun
from widetable_cdc.source import chunk_rows

__all__ = ["server"]  # a fixture

Outcomes = Iterator[tuple[ChunkTask, ChunkOutcome]]
ROWS = "insert into t select i, 'n' || i from generate_series(1, 40) as i"


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path) -> Iterator[SyncedDatabase]:
    """A table of 40 rows, which a job of ten rows a chunk copies."""
    with SyncedDatabase.made(server, tmp_path) as made:
        made.execute("create table t (id int primary key, name text)", ROWS, "analyze t")
        yield made


def limits(at_once: int = 2) -> dict[str, int]:
    return {"chunk-rows": 10, "chunks-at-once": at_once}


def reads(monkeypatch: pytest.MonkeyPatch, before: Any) -> list[int | None]:
    """Call `before` with the number of each read of a chunk, from 0; return the low ends of the ranges."""
    original, lows = chunk_rows.read_chunk, list[int | None]()

    def read(dsn: str, name: str, table: Any, select: Any, key_range: Any) -> Any:
        lows.append(key_range.low)
        before(len(lows) - 1)
        return original(dsn, name, table, select, key_range)

    monkeypatch.setattr(chunk_task, "read_chunk", read)
    return lows


def data_files(shop: SyncedDatabase) -> list[Path]:
    return sorted(Path(shop.table().path).rglob("data-*"))


def test_two_chunks_are_read_at_once(shop: SyncedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    lows = reads(monkeypatch, lambda number: both.wait())
    shop.run(limits=limits())
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()
    assert len(lows) == len(set(lows)) == 4


def test_one_at_once_is_read_by_the_thread_of_the_job(
    shop: SyncedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set[threading.Thread]()
    reads(monkeypatch, lambda number: threads.add(threading.current_thread()))
    shop.run(limits=limits(1))
    assert threads == {threading.current_thread()}


def test_a_chunk_that_fails_leaves_the_others_committed(
    shop: SyncedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    failure = wt.InvalidError("a row", found="a division by zero", expected="none", action="No.")

    def fail_second(number: int) -> None:
        if number < 2:
            both.wait()
        if number == 1:
            raise failure

    with monkeypatch.context() as patched:
        first = reads(patched, fail_second)
        with pytest.raises(wt.InvalidError, match="a division by zero"):
            shop.run(limits=limits())
    (table,) = Sync(shop.config()).status().tables
    # A third one may have begun before the second one failed.
    assert (table.chunks, table.chunks_done) == (4, len(first) - 1)
    again = reads(monkeypatch, lambda number: None)
    shop.run(limits=limits())
    assert len(again) == 4 - table.chunks_done
    assert first[1] in again
    assert shop.target() == shop.source()


def test_a_chunk_without_an_answer_is_read_again(
    shop: SyncedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = wt.StorageError("the source", found="no answer", expected="one", action="Wait.")

    def fail_first(number: int) -> None:
        if number == 0:
            raise failure

    lows = reads(monkeypatch, fail_first)
    shop.run(limits=limits())
    assert shop.target() == shop.source()
    assert (len(lows), len(set(lows))) == (5, 4)


def test_files_of_a_table_that_was_altered_meanwhile_are_deleted(shop: SyncedDatabase) -> None:
    """The second chunk is read before the ALTER, the first behind it, and ends first."""

    def altering(tasks: Iterator[ChunkTask]) -> Outcomes:
        first, second = itertools.islice(tasks, 2)
        files = second.run()
        assert isinstance(files, ChunkFiles)
        assert data_files(shop)
        shop.execute("alter table t add column extra int")
        yield first, first.run()
        yield second, files

    with closing(SyncRun(shop.config(limits=limits()), altering)) as run:
        run.open()
        assert run.copy(threading.Event())
        assert data_files(shop) == []
        assert run.progress().chunks_copied == 0
    shop.execute("update t set extra = 7 where id = 3")
    shop.run(limits=limits())
    assert shop.target() == shop.source()


def test_chunks_may_be_committed_in_any_order(shop: SyncedDatabase) -> None:
    """All are planned before one is read, so the first has the lowest numbers and is committed last."""

    def reversed_order(tasks: Iterator[ChunkTask]) -> Outcomes:
        planned = list(tasks)
        assert len(planned) == 4
        for task in reversed(planned):
            yield task, task.run()

    shop.execute("begin; delete from t where id = 5; insert into t values (5, 'again'); commit")
    with closing(SyncRun(shop.config(limits=limits()), reversed_order)) as run:
        run.follow("caught-up", threading.Event())
        progress = run.progress()
    assert shop.target() == shop.source()
    assert (progress.rows_copied, progress.chunks_copied) == (40, 4)
    assert progress.bytes_copied > 40 * 4
    assert progress.to_dict()["tables"][0]["status"] == "streaming"


def test_a_table_of_dynamic_buckets_has_one_writer_at_a_time(shop: SyncedDatabase) -> None:
    most = 0

    def several(tasks: Iterator[ChunkTask]) -> Outcomes:
        nonlocal most
        planned = list(itertools.islice(tasks, 3))
        most = max(most, len(planned))
        for task in planned:
            yield task, task.run()

    target = {
        "warehouse": str(shop.warehouse),
        "database": "shop",
        "barriers": "none",
        "options": {"bucket": "-1"},
    }
    with closing(SyncRun(shop.config(limits=limits(), target=target), several)) as run:
        run.follow("caught-up", threading.Event())
    assert most == 1
    assert shop.target() == shop.source()


def test_a_task_travels_pickled_and_shows_no_password(shop: SyncedDatabase) -> None:
    """The server trusts all users, whatever password they send."""
    config = shop.config(limits=limits(), source={"dsn": f"{shop.dsn} password=geheim"})

    def sent(tasks: Iterator[ChunkTask]) -> Outcomes:
        for task in tasks:
            assert "geheim" not in repr(task)
            copy = pickle.loads(pickle.dumps(task))
            yield task, pickle.loads(pickle.dumps(copy.run()))

    with closing(SyncRun(config, sent)) as run:
        run.follow("caught-up", threading.Event())
    assert shop.target() == shop.source()


def test_tables_take_turns(shop: SyncedDatabase) -> None:
    shop.execute(
        "create table u (id int primary key)",
        "insert into u select generate_series(1, 40)",
        "analyze u",
    )
    order = list[str]()

    def noted(tasks: Iterator[ChunkTask]) -> Outcomes:
        for task in tasks:
            order.append(task.state.relation)
            yield task, task.run()

    with closing(SyncRun(shop.config(limits=limits()), noted)) as run:
        run.follow("caught-up", threading.Event())
    assert sorted(order[:2]) == sorted(order[2:4]) == ["public.t", "public.u"]
