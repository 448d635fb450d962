"""Rows of a chunk with the snapshot that they show, on a real server: its races, its locks, a standby."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from tests.cdc.source.conftest import Database
from tests.support.databases.postgres_server import postgres_server
from tests.support.databases.standby_server import standby_of
from tests.support.faults.patience import wait_for
from widetable import ConflictError, InvalidError, NotFoundError, StorageError
from widetable_cdc.copying.visibility import counts
from widetable_cdc.source.chunk_range import ChunkRange, KeyKind
from widetable_cdc.source.chunk_rows import ChunkRead, read_chunk
from widetable_cdc.source.lsn import lsn_of
from widetable_cdc.source.session import session
from widetable_cdc.source.slot import Slot
from widetable_cdc.source.source_table import SourceColumn, SourceTable
from widetable_cdc.values.source_type import SourceType


def _table(execute: Callable[..., list[Any]], name: str = "t") -> SourceTable:
    """The columns id and name, and the oid that the server says."""
    ((oid,),) = execute(f"SELECT '{name}'::regclass::oid::int8")
    columns = (
        SourceColumn("id", 1, SourceType(23, "int4"), False),
        SourceColumn("name", 2, SourceType(25, "text"), True),
    )
    return SourceTable(oid, "public", "t", oid, "d", ("id",), columns)


@pytest.fixture
def filled(database: Database) -> Database:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name text)",
        "INSERT INTO t SELECT g, 'name ' || g FROM generate_series(1, 1000) AS g",
    )
    return database


def _rows(read: ChunkRead) -> list[tuple[Any, ...]]:
    batches = list(read.batches)
    table = pa.Table.from_batches(batches, schema=read.schema)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_chunk_has_the_rows_of_its_range(filled: Database) -> None:
    key_range = ChunkRange("id", KeyKind.INTEGER, 10, 13)
    select = ['"id"', "upper(name) AS name"]
    table = _table(filled.execute)
    with read_chunk(filled.dsn, "shop", table, select, key_range) as read:
        assert read.schema.names == ["id", "name"]
        assert _rows(read) == [(10, "NAME 10"), (11, "NAME 11"), (12, "NAME 12")]


def test_rows_come_in_batches_of_about_the_size_asked(filled: Database) -> None:
    table = _table(filled.execute)
    with read_chunk(
        filled.dsn, "shop", table, ["id", "name"], ChunkRange(), batch_bytes=2000
    ) as read:
        sizes = [batch.num_rows for batch in read.batches]
    assert sum(sizes) == 1000
    assert max(sizes) < 200


def test_rows_that_come_after_the_snapshot_are_not_read(filled: Database) -> None:
    with read_chunk(filled.dsn, "shop", _table(filled.execute), ["id"], ChunkRange()) as read:
        ((xid,),) = filled.execute("INSERT INTO t VALUES (-1) RETURNING xmin::text::int8")
        assert _rows(read) == [(number,) for number in range(1, 1001)]
    assert not read.snapshot.sees(np.array([xid], np.uint32))[0]


def test_the_position_lies_behind_all_that_the_snapshot_sees(filled: Database) -> None:
    for number in range(-20, 0):
        filled.execute(f"INSERT INTO t VALUES ({number})")
        ((before,),) = filled.execute("SELECT pg_current_wal_insert_lsn()::text")
        with read_chunk(filled.dsn, "shop", _table(filled.execute), ["id"], ChunkRange()) as read:
            assert len(_rows(read)) == 1000 + number + 21
            assert read.lsn >= lsn_of(before)


def test_a_transaction_in_the_log_that_is_not_visible_yet_is_not_taken_for_seen() -> None:
    """Case 2, the watermark race: its update waits for a standby that does not exist."""
    with postgres_server() as server:
        server.execute(
            "CREATE TABLE t (id int PRIMARY KEY, name text)",
            "INSERT INTO t VALUES (1, 'old')",
            "CREATE PUBLICATION p FOR TABLE t",
        )
        with session(server.dsn, "shop") as connection:
            Slot(connection, "s").create()
        table = _table(server.execute)
        server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nosuch'")
        server.execute("SELECT pg_reload_conf()")
        with psycopg.connect(server.dsn, autocommit=True) as waiting:
            wait_for(
                lambda: waiting.execute("SHOW synchronous_standby_names").fetchone() == ("nosuch",)
            )
            waiting.pgconn.send_query(b"UPDATE t SET name = 'new'")
            wait_for(
                lambda: (
                    server.execute(
                        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                    )
                    == [(1,)]
                )
            )
            ((end, xid),) = server.execute(
                "SELECT lsn::text, xid::text::int8 FROM pg_logical_slot_peek_binary_changes('s', NULL,"
                " NULL, 'proto_version', '1', 'publication_names', 'p') WHERE get_byte(data, 0) = 67"
            )
            applied = np.array([xid], np.uint32)
            with read_chunk(server.dsn, "shop", table, ["name"], ChunkRange()) as read:
                assert _rows(read) == [("old",)]
            # By positions the update would be taken for seen, and lost.
            assert lsn_of(end) <= read.lsn
            assert not read.snapshot.sees(applied)[0]
            assert not counts(read.snapshot, applied)
            server.execute("ALTER SYSTEM RESET synchronous_standby_names")
            server.execute("SELECT pg_reload_conf()")
            while waiting.pgconn.get_result() is not None:
                pass
        with read_chunk(server.dsn, "shop", table, ["name"], ChunkRange()) as read:
            assert _rows(read) == [("new",)]
        assert counts(read.snapshot, applied)


def test_the_table_is_locked_before_the_snapshot_is_taken(filled: Database) -> None:
    """An ALTER that rewrites the table while the chunk waits would leave it empty, in an older snapshot."""
    table = _table(filled.execute)

    def rows() -> int:
        with read_chunk(filled.dsn, "reader", table, ["id"], ChunkRange()) as read:
            return len(_rows(read))

    with ThreadPoolExecutor(1) as pool, filled.connect() as altering:
        altering.execute("ALTER TABLE t ALTER COLUMN id TYPE bigint USING id * 2")
        reading = pool.submit(rows)
        wait_for(
            lambda: (
                filled.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                    f"AND application_name = 'widetable cdc/reader' AND datname = '{filled.name}'"
                )
                == [(1,)]
            )
        )
        altering.commit()
        assert reading.result() == 1000


def test_a_table_that_stays_locked_is_a_conflict(filled: Database) -> None:
    """The job does not wait for a transaction that truncates it and then does something else."""
    with filled.connect() as truncating:
        truncating.execute("TRUNCATE t")
        with (
            pytest.raises(ConflictError, match=r"truncated"),
            read_chunk(
                filled.dsn, "shop", _table(filled.execute), ["id"], ChunkRange(), lock_seconds=0.05
            ),
        ):
            pass
        truncating.rollback()


def test_a_table_that_was_altered_since_is_a_conflict(filled: Database) -> None:
    table = _table(filled.execute)
    filled.execute("ALTER TABLE t RENAME COLUMN name TO label")
    with (
        pytest.raises(ConflictError, match=r"public\.t"),
        read_chunk(filled.dsn, "shop", table, ["id"], ChunkRange()),
    ):
        pass


def test_a_table_that_was_made_anew_is_a_conflict(filled: Database) -> None:
    table = _table(filled.execute)
    filled.execute("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, name text)")
    with (
        pytest.raises(ConflictError, match="catalog"),
        read_chunk(filled.dsn, "shop", table, ["id"], ChunkRange()),
    ):
        pass


def test_a_table_that_is_gone_is_not_found(filled: Database) -> None:
    table = replace(_table(filled.execute), name='no"table')
    with (
        pytest.raises(NotFoundError, match='no"table'),
        read_chunk(filled.dsn, "shop", table, ["id"], ChunkRange()),
    ):
        pass


def test_a_value_that_cannot_be_read_is_an_error_of_ours(filled: Database) -> None:
    table = _table(filled.execute)
    with (
        pytest.raises(InvalidError, match="division by zero"),
        read_chunk(filled.dsn, "shop", table, ["1 / (id - 900)"], ChunkRange()) as read,
    ):
        list(read.batches)


def test_a_connection_that_ends_is_a_storage_error(filled: Database) -> None:
    filled.execute("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(2000, 30000) g")
    with read_chunk(
        filled.dsn, "ended", _table(filled.execute), ["name"], ChunkRange(), batch_bytes=10_000
    ) as read:
        next(read.batches)
        filled.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            f"WHERE application_name = 'widetable cdc/ended' AND datname = '{filled.name}'"
        )
        with pytest.raises(StorageError, match=r"public\.t"):
            list(read.batches)


def test_a_server_in_recovery_is_refused() -> None:
    with postgres_server() as primary:
        primary.execute(
            "CREATE TABLE t (id int PRIMARY KEY, name text)", "INSERT INTO t VALUES (1, 'a')"
        )
        table = _table(primary.execute)
        with standby_of(primary) as standby:
            assert standby.execute("SELECT id FROM t") == [(1,)]
            with (
                pytest.raises(InvalidError, match="in recovery"),
                read_chunk(standby.dsn, "shop", table, ["id"], ChunkRange()),
            ):
                pass


def test_rows_that_did_not_wait_for_the_disk_survive_a_crash_once_they_are_read() -> None:
    with postgres_server(wal_writer_delay="10s") as server:
        server.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
        table = _table(server.execute)
        server.execute("SET synchronous_commit = off; INSERT INTO t VALUES (1)")
        with read_chunk(server.dsn, "shop", table, ["id"], ChunkRange()) as read:
            rows = _rows(read)
        server.crash()
        server.start()
        assert server.execute("SELECT id FROM t") == rows == [(1,)]
