"""A copy chunk by chunk beside a log of changes ends as the source is, for random histories on a real server.

The target is a dict. What is applied follows the rooms' own rules: a change of a key unless its chunk's snapshot sees
it, a chunk only if its snapshot counts. Transactions stay open over reads of chunks, commits wait for a standby that
does not exist (they are in the log, and no snapshot sees them), keys move between chunks, tables are truncated, chunks
are read again, and the job forgets everything but its rows, its states and its position.

Values grow with each write, so those of a key grow in the order of its commits: a target never goes back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg.pq import TransactionStatus

from tests.support.databases.postgres_server import PostgresServer, postgres_server
from tests.support.faults.patience import wait_for
from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.copying.chunk_states import from_table, to_table
from widetable_cdc.copying.pending import not_yet_seen, truncated
from widetable_cdc.copying.visibility import counts
from widetable_cdc.log.changes import ChangeBatch, Kind, OldRow
from widetable_cdc.log.log_decoder import LogDecoder
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.chunk_range import ChunkRange, KeyKind
from widetable_cdc.source.chunk_rows import read_chunk
from widetable_cdc.source.publication import Publication
from widetable_cdc.source.session import open_session
from widetable_cdc.source.slot import Slot
from widetable_cdc.source.transport import PeekTransport

_KEYS = 30
_Event = tuple[int, int, int, int | None, tuple[int, int] | None]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    settings = {"synchronous_standby_names": "nosuch", "synchronous_commit": "local"}
    with postgres_server(**settings) as running:
        yield running


class _Writers:
    """Open transactions of users, and commits that wait for a standby."""

    def __init__(self, dsn: str, rng: random.Random) -> None:
        self._rng, self._dsn = rng, dsn
        self._free = [psycopg.connect(dsn) for _ in range(4)]
        self.waiting: list[psycopg.Connection[Any]] = []
        self._value = 0
        for each in self._free:
            each.execute("SET lock_timeout = '20ms'")
            each.commit()

    def write(self) -> None:
        key, other = self._rng.sample(range(_KEYS), 2)
        self._value += 1
        statement = self._rng.choice(
            [
                f"INSERT INTO t VALUES ({key}, {self._value}) ON CONFLICT DO NOTHING",
                f"UPDATE t SET v = {self._value} WHERE id = {key}",
                f"UPDATE t SET id = {other}, v = {self._value} WHERE id = {key}",
                f"DELETE FROM t WHERE id = {key}",
            ]
            * 3
            + ["TRUNCATE t"]
        )
        if not self._free:
            self.release()
        writer = self._rng.choice(self._free)
        try:
            writer.execute(statement)
            if statement.startswith("TRUNCATE"):
                writer.commit()  # no chunk can be read while it is open
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UniqueViolation):
            writer.rollback()

    def end(self) -> None:
        if not self._free:
            return
        writer, how = self._rng.choice(self._free), self._rng.random()
        if how < 0.15:
            writer.rollback()
        elif how < 0.6 or writer.info.transaction_status == TransactionStatus.IDLE:
            writer.commit()
        else:
            self._wait_at_commit(writer)

    def _wait_at_commit(self, writer: psycopg.Connection[Any]) -> None:
        row = writer.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
        assert row is not None
        if row[0] is None:
            writer.commit()
            return
        writer.execute("SET LOCAL synchronous_commit = on")
        writer.pgconn.send_query(b"COMMIT")
        self._free.remove(writer)
        self.waiting.append(writer)
        with psycopg.connect(self._dsn, autocommit=True) as looking:
            query = "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = %s"
            wait_for(
                lambda: looking.execute(query, (writer.info.backend_pid,)).fetchone() == (True,)
            )

    def release(self) -> None:
        """Let all commits end that wait; the server says that they are committed here."""
        with psycopg.connect(self._dsn, autocommit=True) as canceling:
            for writer in self.waiting:
                canceling.execute("SELECT pg_cancel_backend(%s)", (writer.info.backend_pid,))
                while writer.pgconn.get_result() is not None:
                    pass
        self._free += self.waiting
        self.waiting = []

    def commit(self) -> None:
        for each in self._free:
            each.commit()

    def close(self) -> None:
        self.release()
        for each in self._free:
            each.close()


class _Job:
    """A job whose target is a dict. After `restart` it has its rows, states and position, as a real one has."""

    def __init__(self, dsn: str, slot: str) -> None:
        self._dsn, self._slot = dsn, slot
        self.rows: dict[int, int] = {}
        self._newest: dict[int, int] = {}
        self._position = 0
        connection = open_session(dsn, "shop")
        (self._table,) = source_tables(connection, ["t"]).values()
        Publication(connection, "p").ensure([self._table])
        Slot(connection, slot).create()
        connection.close()
        ranges = [
            ChunkRange("id", KeyKind.INTEGER, low, high)
            for low, high in ((None, 10), (10, 20), (20, None))
        ]
        self.plan = ChunkPlan.planned(self._table.oid, ranges)
        self._begin()

    def restart(self) -> None:
        self._transport.close()
        self.plan = ChunkPlan(from_table(to_table(self.plan.states)))
        self._begin()

    def _begin(self) -> None:
        self._transport = PeekTransport(self._dsn, "shop", self._slot, "p")
        self._applied: list[int] = []
        with psycopg.connect(self._dsn) as connection:
            row = connection.execute(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8"
            ).fetchone()
        assert row is not None
        self._floor = row[0]

    def follow(self, max_changes: int) -> bool:
        """Apply a part of the log. Returns whether there was any."""
        part = self._transport.changes(self._position, max_changes)
        log = LogDecoder().decode(part.data)
        for event in sorted(each for batch in log.batches for each in _events(batch)):
            _, end_lsn, xid, key, row = event
            if end_lsn <= self._position:
                continue
            self._applied.append(xid)
            if key is None and row is None:
                self._empty(xid)
            if key is not None and self._is_pending(key, xid):
                self.rows.pop(key, None)
            if row is not None and self._is_pending(row[0], xid):
                self._put(*row)
        if log.end_lsn is not None:
            self._position = max(self._position, log.end_lsn)
        return log.end_lsn is not None

    def follow_to_the_end(self) -> None:
        while self.follow(1000):
            self.confirm()

    def confirm(self) -> None:
        if self._position:
            self._transport.confirm(self._position)

    def copy(self) -> bool:
        """Read the next chunk. Returns false if its snapshot does not count yet."""
        state = self.plan.to_read(1)[0]
        with read_chunk(self._dsn, "shop", self._table, ["id", "v"], state.key_range) as read:
            if not counts(read.snapshot, np.array(self._applied, np.uint32), self._floor):
                return False
            rows = pa.Table.from_batches(list(read.batches), schema=read.schema)
        for key in [each for each in self.rows if self._chunk_of(each) == state.chunk]:
            del self.rows[key]
        for key, value in zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True):
            self._put(key, value)
        self.plan = self.plan.copied(state.chunk, read.snapshot, read.lsn)
        return True

    def read_again(self, chunk: int) -> None:
        self.plan = ChunkPlan(
            each.planned() if each.chunk == chunk else each for each in self.plan.states
        )

    def close(self) -> None:
        self._transport.close()

    def _put(self, key: int, value: int) -> None:
        assert value >= self._newest.get(key, 0), "the target goes back"
        self.rows[key] = self._newest[key] = value

    def _is_pending(self, key: int, xid: int) -> bool:
        keys, xids = pa.array([key], pa.int32()), np.array([xid], np.uint32)
        return bool(not_yet_seen(keys, xids, self.plan)[0])

    def _empty(self, xid: int) -> None:
        emptied = truncated(xid, self.plan)
        for key in [each for each in self.rows if emptied[self._place_of(each)]]:
            del self.rows[key]

    def _place_of(self, key: int) -> int:
        return int(self.plan.places_of(pa.array([key], pa.int32()))[0])

    def _chunk_of(self, key: int) -> int:
        return self.plan.states[self._place_of(key)].chunk


def _events(batch: ChangeBatch) -> Iterator[_Event]:
    """(ordinal, end LSN, xid, key that goes, row that comes); neither for a truncate."""
    news = batch.new.to_pylist()
    olds = batch.old.to_pylist() if batch.old is not None else [None] * len(news)
    for at, (new, old) in enumerate(zip(news, olds, strict=True)):
        kind, has_old = batch.kinds[at], batch.old_rows[at] != OldRow.NONE
        key = int(old["id"]) if old is not None and has_old else None
        row = (int(new["id"]), int(new["v"])) if kind in (Kind.INSERT, Kind.UPDATE) else None
        yield int(batch.ordinals[at]), int(batch.end_lsns[at]), int(batch.xids[at]), key, row


@pytest.mark.parametrize("history", range(4))
def test_the_target_ends_as_the_source(
    history: int, server: PostgresServer, rng: random.Random
) -> None:
    name = f"h{history}"
    server.execute(f"CREATE DATABASE {name}")
    dsn = server.dsn_of(name)
    server.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        f"INSERT INTO t SELECT g, 0 FROM generate_series(0, {_KEYS - 1}, 2) AS g",
        database=name,
    )
    with closing(_Job(dsn, name)) as job, closing(_Writers(dsn, rng)) as writers:
        for _ in range(120):
            _step(job, writers, rng)
        writers.release()
        writers.commit()
        while not job.plan.is_copied:
            assert job.copy()
        job.follow_to_the_end()
        assert job.rows == dict(server.execute("SELECT id, v FROM t", database=name))
    server.execute(f"SELECT pg_drop_replication_slot('{name}')")


def _step(job: _Job, writers: _Writers, rng: random.Random) -> None:
    step = rng.random()
    if step < 0.4:
        writers.write()
    elif step < 0.65:
        writers.end()
    elif step < 0.8:
        job.follow(rng.choice([1, 1000]))
    elif step < 0.88:
        if not job.plan.is_copied:
            job.copy()
    elif step < 0.90:
        job.confirm()
    elif step < 0.94:
        job.restart()
    elif step < 0.96:
        writers.release()
    else:
        job.read_again(rng.choice(job.plan.states).chunk)
