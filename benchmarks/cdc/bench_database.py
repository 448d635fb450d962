"""A database into a table, end to end: the full copy, the log, and how old a change is when it is in the table.

The copy of 11 columns is compared with ADBC reading the same rows and dropping them. The log of transactions of ten
changes is compared with the server's own decoding of it, which it only counts. Server and job share the machine:
seconds are those of the clock, CPU is the job's alone. The table is compared with the source before a time counts.
"""

from __future__ import annotations

import gc
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg

import widetable as wt
from benchmarks.cdc.bench_source_reads import INSERT, TABLE
from benchmarks.harness import Row, Size, Timing, scratch, timed
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from widetable_cdc import Sync, SyncConfig, config_of
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.chunk_rows import read_chunk
from widetable_cdc.source.session import session
from widetable_cdc.source.sql_name import quoted
from widetable_cdc.values.column_type import column_type

ROWS = {Size.FULL: 5_000_000, Size.SHORT: 500_000, Size.TINY: 400}
CHANGES = {Size.FULL: 1_000_000, Size.SHORT: 100_000, Size.TINY: 200}
ROUNDS = {Size.FULL: 3, Size.SHORT: 3, Size.TINY: 1}
LAG_SECONDS = {Size.FULL: 300, Size.SHORT: 60, Size.TINY: 1}
_CHANGES_A_SECOND = 1_000
_COPY_SHARE, _COPY_MICROS, _LOG_SHARE = 0.6, 10.0, 0.6
_LAG_P50, _LAG_P99 = 1.5, 4.0
_UPDATES = (
    "DO $$ BEGIN FOR n IN 1 .. {count} / 10 LOOP"
    " UPDATE t SET j = j + 1, d = 'changed ' || n WHERE id BETWEEN n * 5 AND n * 5 + 4;"
    " INSERT INTO t SELECT {rows} + n * 5 + k, k, n, n, 'new', now(), '2026-01-01', true, '{{}}', 'x', 0"
    " FROM generate_series(0, 4) AS k; COMMIT; END LOOP; END $$"
)
_COUNT = (
    "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('widetable_bench', NULL, NULL, "
    "'proto_version', '1', 'publication_names', 'widetable_bench')"
)


def run(size: Size) -> list[Row]:
    with (
        scratch("database") as work,
        postgres_server(shared_buffers="128MB", max_wal_size="8GB") as server,
    ):
        server.execute(TABLE, INSERT.format(rows=ROWS[size]), "VACUUM ANALYZE t")
        return [
            _copied(server, work, size),
            _followed(server, work, size),
            _lag(server, work, size),
        ]


def _config(server: PostgresServer, warehouse: Path) -> SyncConfig:
    target = {"warehouse": str(warehouse), "database": "bench", "options": {"bucket": "2"}}
    limits = {"max-delay": "100 ms"}
    source = {"dsn": server.dsn}
    entries = {"name": "bench", "tables": ["public.t"], "source": source, "target": target}
    return config_of({**entries, "limits": limits})


def _copied(server: PostgresServer, work: Path, size: Size) -> Row:
    """The copy into a new table, against the same rows read and dropped."""
    with session(server.dsn, "bench") as connection:
        (table,) = source_tables(connection, ["public.t"]).values()
    select = [column_type(each.type).select(quoted(each.name)) for each in table.columns]

    def dropped() -> None:
        with read_chunk(server.dsn, "bench", table, select, ChunkRange()) as read:
            assert sum(batch.num_rows for batch in read.batches) == ROWS[size]

    ours, theirs = [], []
    for number in range(ROUNDS[size]):
        job = Sync(_config(server, work / f"copy{number}"))
        ours.append(_quietly(partial(job.run, "copied")))
        theirs.append(_quietly(dropped))
        if number == 0:
            assert job.verify().is_equal
        job.drop_slot()
    share = statistics.median(t.wall / o.wall for o, t in zip(ours, theirs, strict=True))
    micros = statistics.median(one.cpu for one in ours) / ROWS[size] * 1e6
    return Row(
        f"copy of {ROWS[size]:,} rows of 11 columns",
        f"{ROWS[size] / statistics.median(o.wall for o in ours) / 1e3:,.0f} K rows/s, {micros:.1f} µs of CPU a row",
        f"ADBC alone {ROWS[size] / statistics.median(t.wall for t in theirs) / 1e3:,.0f} K rows/s",
        share,
        f"≥ {_COPY_SHARE} of ADBC, ≤ {_COPY_MICROS:.0f} µs a row",
        None if size is Size.TINY else share >= _COPY_SHARE and micros <= _COPY_MICROS,
    )


def _followed(server: PostgresServer, work: Path, size: Size) -> Row:
    """Changes in transactions of ten, against the server that only counts them."""
    count = CHANGES[size]
    config = _config(server, work / "log")
    Sync(config).run("caught-up")
    # The first changes of a process compile the kernels of the log.
    server.execute("UPDATE t SET j = j + 1 WHERE id < 10")
    Sync(config).run("caught-up")
    server.execute(_UPDATES.format(count=count, rows=ROWS[size] * 2))
    theirs = _quietly(lambda: server.execute(_COUNT))
    ours = _quietly(lambda: Sync(config).run("caught-up"))
    assert Sync(config).verify().is_equal
    return Row(
        f"log of {count:,} changes, ten a transaction",
        f"{count / ours.wall / 1e3:,.0f} K changes/s, {ours.cpu / count * 1e6:.1f} µs of CPU each",
        f"the server's decoding alone {count / theirs.wall / 1e3:,.0f} K changes/s",
        theirs.wall / ours.wall,
        f"≥ {_LOG_SHARE}",
        None if size is Size.TINY else theirs.wall / ours.wall >= _LOG_SHARE,
    )


@dataclass
class _Commits:
    """Commits of the source: the end of the log behind each, and its time."""

    at: list[tuple[int, float]] = field(default_factory=list)


def _lag(server: PostgresServer, work: Path, size: Size) -> Row:
    """From a commit at the source to the snapshot of the target that has it."""
    job, stop, commits = Sync(_config(server, work / "log")), threading.Event(), _Commits()
    follower = threading.Thread(target=job.run, args=(None, stop))
    follower.start()
    _write_steadily(server, commits, LAG_SECONDS[size], ROWS[size] * 8)
    last = commits.at[-1][0]
    table = wt.Catalog(str(work / "log")).table("bench.t")
    while max(_positions(table), default=(0, 0.0))[0] < last:
        time.sleep(0.05)
    stop.set()
    follower.join()
    positions = _positions(table)
    lags = sorted(
        min(when for lsn, when in positions if lsn >= at) - since for at, since in commits.at
    )
    p50, p99 = statistics.median(lags), lags[int(len(lags) * 0.99) - 1]
    return Row(
        f"age of a change, {_CHANGES_A_SECOND:,} a second for {LAG_SECONDS[size]} s",
        f"p50 {p50:.2f} s, p99 {p99:.2f} s",
        target=f"p50 ≤ {_LAG_P50} s, p99 ≤ {_LAG_P99:.0f} s",
        ok=None if size is Size.TINY else p50 <= _LAG_P50 and p99 <= _LAG_P99,
    )


def _positions(table: wt.Table) -> list[tuple[int, float]]:
    """The LSN and the time of each snapshot of a round."""
    return [
        (int(snapshot.properties["widetable.cdc.lsn"]), snapshot.time_millis / 1000)
        for snapshot in table.snapshots()
        if "widetable.cdc.lsn" in snapshot.properties
    ]


def _write_steadily(server: PostgresServer, commits: _Commits, seconds: int, first: int) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        start, number = time.time(), 0
        while time.time() < start + seconds:
            connection.execute(
                "INSERT INTO t (id, j) SELECT %s + k, 0 FROM generate_series(0, 9) AS k",
                (first + number * 10,),
            )
            row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
            assert row is not None
            commits.at.append((int(row[0]), time.time()))
            number += 1
            time.sleep(max(0.0, start + number * 10 / _CHANGES_A_SECOND - time.time()))


def _quietly(call: Callable[[], object]) -> Timing:
    gc.collect()
    return timed(call)
