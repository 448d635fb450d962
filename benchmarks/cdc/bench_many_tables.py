"""A whole database of many small tables: how fast it is copied, and how many commits a second follow its changes.

Then the job is killed, changes come while nobody reads them, and a new process begins: the time to its first commit
counts from the start of the process, imports included. All tables are compared with the source before a time counts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

import widetable as wt
from benchmarks.harness import ROOT, Row, Size, scratch, timed
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from widetable_cdc import Sync, SyncConfig, config_of

TABLES = {Size.FULL: 200, Size.SHORT: 40, Size.TINY: 3}
ROWS = {Size.FULL: 10_000, Size.SHORT: 5_000, Size.TINY: 20}
FOLLOW_SECONDS = {Size.FULL: 60, Size.SHORT: 20, Size.TINY: 1}
WAITING = {Size.FULL: 100_000, Size.SHORT: 100_000, Size.TINY: 100}
_CHANGES_A_SECOND = 100
_FIRST_COMMIT_SECONDS = 5.0
_PATIENCE_SECONDS = 600.0
_CREATE = (
    "CREATE TABLE t{n} (id bigint PRIMARY KEY, a int, b text, c double precision, d timestamptz)"
)
_FILL = "INSERT INTO t{n} SELECT k, k, 'row ' || k, k, now() FROM generate_series(1, {rows}) AS k"


def run(size: Size) -> list[Row]:
    with scratch("many_tables") as work, postgres_server(shared_buffers="128MB") as server:
        for number in range(TABLES[size]):
            server.execute(_CREATE.format(n=number), _FILL.format(n=number, rows=ROWS[size]))
        config = _config(server, work)
        copied = _copied(config, size)
        followed = _followed(server, config, size)
        return [copied, followed, _restarted(server, work, config, size)]


def _entries(server: PostgresServer, work: Path) -> dict[str, object]:
    target = {"warehouse": str(work / "warehouse"), "database": "bench", "options": {"bucket": "1"}}
    return {
        "name": "bench",
        "tables": ["public.*"],
        "source": {"dsn": server.dsn},
        "target": target,
        "limits": {"max-delay": "100 ms"},
    }


def _config(server: PostgresServer, work: Path) -> SyncConfig:
    return config_of(_entries(server, work))


def _copied(config: SyncConfig, size: Size) -> Row:
    took = timed(lambda: Sync(config).run("copied"))
    rows = TABLES[size] * ROWS[size]
    assert Sync(config).verify().is_equal
    return Row(
        f"{TABLES[size]} tables of {ROWS[size]:,} rows are copied",
        f"{took.wall:.1f} s, {TABLES[size] / took.wall:.1f} tables/s, {rows / took.wall / 1e3:,.0f} K rows/s, "
        f"{took.cpu / rows * 1e6:.1f} µs of CPU a row",
    )


def _followed(server: PostgresServer, config: SyncConfig, size: Size) -> Row:
    """Changes that are spread over all tables."""
    stop = threading.Event()
    follower = threading.Thread(target=Sync(config).run, args=(None, stop))
    before = _commits(config, size)
    follower.start()
    _spread(server, size)
    stop.set()
    follower.join()
    Sync(config).run("caught-up")
    commits = _commits(config, size) - before
    assert Sync(config).verify().is_equal
    catalog = wt.Catalog(config.target.warehouse)
    files = sum(
        catalog.table(f"bench.t{number}").inspect.files().num_rows for number in range(TABLES[size])
    )
    return Row(
        f"{_CHANGES_A_SECOND} changes a second over {TABLES[size]} tables, {FOLLOW_SECONDS[size]} s",
        f"{commits / FOLLOW_SECONDS[size]:.0f} commits/s, {files / TABLES[size]:.1f} live files a table",
    )


def _spread(server: PostgresServer, size: Size) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        start = time.time()
        for number in range(FOLLOW_SECONDS[size] * _CHANGES_A_SECOND):
            table, key = number % TABLES[size], number % ROWS[size] + 1
            connection.execute(f"UPDATE t{table} SET a = a + 1 WHERE id = %s", (key,))
            time.sleep(max(0.0, start + number / _CHANGES_A_SECOND - time.time()))


def _restarted(server: PostgresServer, work: Path, config: SyncConfig, size: Size) -> Row:
    """Kill the job, let changes wait, and start it again."""
    entries = json.dumps(_entries(server, work))
    first = _started(entries)
    server.execute("UPDATE t0 SET a = -1 WHERE id = 1")
    _wait_for(lambda: _commits(config, size, 1) > 0 and _reads(config) == -1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    server.execute(
        f"INSERT INTO t1 SELECT k, 0 FROM generate_series(1000000, {999_999 + WAITING[size]}) AS k"
    )
    before, begun = _newest(config), time.time()
    again = _started(entries)
    _wait_for(lambda: _newest(config) > before)
    seconds = time.time() - begun
    again.send_signal(signal.SIGTERM)
    again.wait()
    Sync(config).run("caught-up")
    assert Sync(config).verify("public.t1").is_equal
    return Row(
        f"first commit behind kill -9 with {WAITING[size]:,} changes waiting",
        f"{seconds:.1f} s from the start of the process",
        target=f"≤ {_FIRST_COMMIT_SECONDS:.0f} s",
        ok=None if size is Size.TINY else seconds <= _FIRST_COMMIT_SECONDS,
    )


def _started(entries: str) -> subprocess.Popen[bytes]:
    program = (
        "import json, sys, threading, signal, widetable_cdc; stop = threading.Event();"
        "signal.signal(signal.SIGTERM, lambda *_: stop.set());"
        "widetable_cdc.Sync(json.loads(sys.argv[1])).run(stop=stop)"
    )
    return subprocess.Popen([sys.executable, "-c", program, entries], cwd=ROOT, env={**os.environ})


def _commits(config: SyncConfig, size: Size, tables: int | None = None) -> int:
    catalog = wt.Catalog(config.target.warehouse)
    names = [f"bench.t{number}" for number in range(tables or TABLES[size])]
    return sum(
        1
        for name in names
        for snapshot in catalog.table(name).snapshots()
        if "widetable.cdc.lsn" in snapshot.properties
    )


def _reads(config: SyncConfig) -> int:
    (row,) = wt.Catalog(config.target.warehouse).table("bench.t0").lookup([{"id": 1}]).to_pylist()
    return int(row["a"])


def _newest(config: SyncConfig) -> int:
    """The last round that t1 has."""
    snapshots = wt.Catalog(config.target.warehouse).table("bench.t1").snapshots()
    return max(int(each.properties.get("widetable.cdc.lsn", "0")) for each in snapshots)


def _wait_for(is_so: Callable[[], bool]) -> None:

    ends = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > ends:
            raise TimeoutError("the job has not come so far in ten minutes")
        time.sleep(0.05)
