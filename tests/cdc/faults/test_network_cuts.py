"""The network between a job and its server fails: a run goes on by itself or ends by a named error, and the next run
has all, once. A proxy on loopback cuts at drawn bytes of either direction, in the copy, in the log, and while tables
are compared.

WIDETABLE_CUTS: cuts (default 8).
"""

from __future__ import annotations

import gc
import os
import random
import socket
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from adbc_driver_postgresql import dbapi as adbc

import widetable as wt
from tests.support.databases.cut_proxy import Cut, CutProxy, cut_proxy
from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from tests.support.programs.tallies import Note
from widetable_cdc import Sync
from widetable_cdc.source.arrow_stream import arrow_stream
from widetable_cdc.source.session import open_arrow_session, session

__all__ = ["server"]  # a fixture

CUTS = int(os.environ.get("WIDETABLE_CUTS", "8"))
# Silence is short, so that stalls take the test little time.
SILENT = "connect_timeout=2 tcp_user_timeout=400"


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path) -> Iterator[SyncedDatabase]:
    with SyncedDatabase.made(server, tmp_path) as made:
        made.execute(
            "create table t (id int primary key, name varchar(20), big text)",
            "insert into t select i, 'n' || i, repeat(md5(i::text), 9) from generate_series(1, 400) i",
        )
        yield made


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[CutProxy]:
    with cut_proxy(server.port) as started:
        yield started


def _job(shop: SyncedDatabase, proxy: CutProxy, **limits: Any) -> Sync:
    dsn = f"host=127.0.0.1 port={proxy.port} user=postgres dbname={shop.name} {SILENT}"
    return Sync(shop.config(source={"dsn": dsn}, limits={"chunk-rows": 150, **limits}))


def _changed(shop: SyncedDatabase, rng: random.Random) -> None:
    first = rng.randrange(1, 400)
    shop.transaction(
        f"update t set name = 'x' || id, big = repeat(md5(random()::text), 30) where id % 400 < {first}",
        f"delete from t where id = {first}",
        f"insert into t select max(id) + 1, 'new', 'b' from t having {first} > 0",
    )


def _ends(work: Any, *arguments: Any) -> bool:
    """Return whether it ended well; it may not end by other errors than those of ours."""
    try:
        work(*arguments)
    except wt.StorageError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS + 30 * CUTS)
def test_after_cuts_at_drawn_bytes_the_target_is_the_source(
    shop: SyncedDatabase, proxy: CutProxy, rng: random.Random, tally: Note
) -> None:
    shop.run()
    carried = {"copy": 20_000, "log": 20_000, "verify": 20_000}
    itself = 0
    for number in range(CUTS):
        stage = rng.choice(["copy", "log", "log", "verify", "status"])
        where, how = rng.choice(["up", "down"]), rng.choice(list(Cut))
        if stage == "copy":
            Sync(shop.config()).resume("public.t", recopy=True)
        if stage != "verify":
            _changed(shop, rng)
        job = _job(shop, proxy)
        works = {"verify": job.verify, "status": job.status}
        before = proxy.carried[where]
        proxy.cut(where, rng.randrange(carried.get(stage, 3000)), how)
        made = proxy.cuts
        ended = _ends(*([works[stage]] if stage in works else [job.run, "caught-up"]))
        proxy.heal()
        what = f"cut {number}: {stage} {where} {how.name}"
        itself += ended and proxy.cuts > made
        if proxy.cuts == made and stage in carried:
            carried[stage] = max(2000, (proxy.carried[where] - before) * 9 // 10)
        shop.run()
        assert shop.target() == shop.source(), what
    assert shop.folded() == shop.target()
    assert shop.table().audit(start=0).ok
    tally(cuts=proxy.cuts, went_on=itself)
    assert proxy.cuts > CUTS // 3


def test_a_preparation_that_fails_anywhere_leaves_no_session(
    shop: SyncedDatabase, proxy: CutProxy
) -> None:
    """A session that is left has the slot, so the next run would be refused."""
    shop.run()
    before = proxy.carried["up"]
    _job(shop, proxy).prepare()
    length = proxy.carried["up"] - before
    failed = 0
    jobs = []
    for place in range(24):
        proxy.cut("up", length * (place + 1) // 24 - 30, Cut.CLOSE)
        jobs.append(_job(shop, proxy))  # as its caller has it, who may run it again
        failed += not _ends(jobs[-1].prepare)
        proxy.heal()
        wait_for(lambda: _sessions(shop) == 0)
    shop.run()
    assert failed > 12


def _sessions(shop: SyncedDatabase) -> int:
    query = (
        "select count(*) from pg_stat_activity "
        f"where application_name like 'widetable%' and datname = '{shop.name}'"
    )
    ((count,),) = shop.execute(query)
    return int(count)


@pytest.mark.parametrize("how", list(Cut))
def test_a_running_job_goes_on_by_itself(
    shop: SyncedDatabase, proxy: CutProxy, how: Cut, caplog: pytest.LogCaptureFixture
) -> None:
    """No limit of time ends a job that runs until it is stopped, and its lost sessions keep nobody out."""
    stop = threading.Event()
    job = _job(shop, proxy)
    running = threading.Thread(target=job.run, args=(None, stop))
    running.start()
    try:
        wait_for(lambda: _target(shop) == shop.source())
        for number in range(2):
            made = proxy.cuts
            proxy.cut("down", 2000, how)
            wait_for(lambda made=made: proxy.cuts > made)  # type: ignore[misc]
            shop.execute(f"insert into t values ({1000 + number}, 'while it is cut')")
            wait_for(lambda: _target(shop) == shop.source())
        proxy.refuse()
        shop.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'widetable%'",
            "insert into t values (2000, 'while nobody listens')",
        )
        wait_for(lambda: "Connection refused" in caplog.text)
        proxy.accept()
        wait_for(lambda: _target(shop) == shop.source())
    finally:
        stop.set()
        running.join()
    assert "WT-W905" in {getattr(record, "code", None) for record in caplog.records}


def test_a_job_gives_up_after_its_time(shop: SyncedDatabase, proxy: CutProxy) -> None:
    job = _job(shop, proxy, **{"retry-for": "1 ms"})
    job.prepare(keep=True)
    proxy.stall()
    with pytest.raises(wt.StorageError, match=r"no answer for|timeout"):
        job.run("caught-up")
    proxy.heal()
    _job(shop, proxy).run("caught-up")
    assert shop.target() == shop.source()


def test_a_server_that_works_for_long_is_waited_for(shop: SyncedDatabase, proxy: CutProxy) -> None:
    """A row that takes the server longer than the silence that a job bears."""
    dsn = _job(shop, proxy).config.source.dsn
    slow = "select 1::int8 as one from pg_sleep(1.5)"
    with session(dsn, "test") as connection:
        assert connection.execute(slow).fetchone() == (1,)
    arrow = open_arrow_session(dsn, "test")
    with arrow.cursor() as cursor:
        cursor.execute(slow)
        assert cursor.table().to_pylist() == [{"one": 1}]
    arrow.close()


def test_a_session_whose_answer_does_not_come_ends(shop: SyncedDatabase, proxy: CutProxy) -> None:
    """Only this connection is held up: the server says that its process waits for the next statement."""
    dsn = _job(shop, proxy).config.source.dsn
    arrow = open_arrow_session(dsn, "test")
    proxy.cut("down", 10, Cut.STALL)
    with pytest.raises(wt.StorageError, match=r"no answer for 0\.4 s"), arrow.cursor() as cursor:
        list(arrow_stream(arrow, cursor, "select 1 as one", "a statement").batches)
    arrow.close()


def test_a_session_ends_whose_socket_took_the_place_of_another_one(
    shop: SyncedDatabase, proxy: CutProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process closes sockets while the session opens its own, which get their numbers."""
    dsn = _job(shop, proxy).config.source.dsn
    others = [socket.socket() for _ in range(8)]

    def connect(*arguments: Any, **options: Any) -> Any:
        for each in others:
            each.close()
        return adbc.connect(*arguments, **options)

    monkeypatch.setattr("widetable_cdc.source.session.adbc", SimpleNamespace(connect=connect))
    arrow = open_arrow_session(dsn, "test")
    proxy.cut("down", 10, Cut.STALL)
    with pytest.raises(wt.StorageError, match=r"no answer for 0\.4 s"), arrow.cursor() as cursor:
        list(arrow_stream(arrow, cursor, "select 1 as one", "a statement").batches)
    arrow.close()
    wait_for(lambda: _sessions(shop) == 0)


@pytest.mark.parametrize("how", list(Cut))
def test_a_session_that_is_cut_while_it_opens_is_closed(
    shop: SyncedDatabase, proxy: CutProxy, how: Cut
) -> None:
    """ADBC warns of each connection that nobody has closed, once it is collected."""
    dsn = _job(shop, proxy).config.source.dsn
    before = proxy.carried["down"]
    open_arrow_session(dsn, "test").close()
    length = proxy.carried["down"] - before
    failed = 0
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for place in range(6):
            proxy.cut("down", length * (place + 1) // 6 - 20, how)
            failed += not _ends(lambda: open_arrow_session(dsn, "test").close())
            proxy.heal()
        wait_for(lambda: _sessions(shop) == 0)
        gc.collect()
    assert not [str(each.message) for each in warned]
    assert failed > 3


def _target(shop: SyncedDatabase) -> list[dict[str, Any]]:
    try:
        return shop.target()
    except wt.NotFoundError:
        return []
