"""The log by peeking: whole transactions again and again until they are confirmed, and the slot follows the log."""

from __future__ import annotations

import struct

import psycopg
import pytest

from tests.cdc.source.conftest import Database
from widetable import InvalidError
from widetable_cdc.source.session import session
from widetable_cdc.source.slot import Slot
from widetable_cdc.source.transport import LogPart, PeekTransport


@pytest.fixture
def published(database: Database) -> Database:
    """A table t in a publication and a slot of the database's name."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, moment timestamptz DEFAULT '2026-01-02 03:04:05+09')",
        f"CREATE PUBLICATION {database.name} FOR TABLE t",
    )
    with session(database.dsn, "test") as connection:
        Slot(connection, database.name).create()
    return database


def _transport(database: Database) -> PeekTransport:
    return PeekTransport(database.dsn, "shop", database.name, database.name)


def _messages(part: LogPart) -> list[bytes]:
    """The third fields of COPY's binary rows, read one by one."""
    data, messages = part.data, []
    assert data[:19] == b"PGCOPY\n\xff\r\n\0" + bytes(8)
    at = 19
    while (count := struct.unpack_from(">h", data, at)[0]) != -1:
        at += 2
        fields = []
        for _ in range(count):
            (length,) = struct.unpack_from(">i", data, at)
            fields.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        assert len(fields) == 3
        messages.append(fields[2])
    assert at + 2 == len(data)
    return messages


def _kinds(part: LogPart) -> str:
    return "".join(chr(each[0]) for each in _messages(part))


def _end_lsns(part: LogPart) -> list[int]:
    return [struct.unpack(">BQQq", each[1:])[2] for each in _messages(part) if each[:1] == b"C"]


def _copied_by_psycopg(database: Database) -> bytes:
    """What the server's own COPY gives."""
    with psycopg.connect(f"{database.dsn} options='-c timezone=UTC'") as connection:
        statement = (
            "COPY (SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes("
            f"'{database.name}', NULL, NULL, 'proto_version', '1', 'publication_names', "
            f"'{database.name}')) TO STDOUT (FORMAT binary)"
        )
        with connection.cursor().copy(statement) as copy:
            return b"".join(bytes(block) for block in copy)


def test_the_bytes_are_those_of_copy(published: Database) -> None:
    published.execute(
        "INSERT INTO t SELECT generate_series(1, 20000)",
        "UPDATE t SET id = -id WHERE id < 100",
        "DELETE FROM t WHERE id > 19000",
        "TRUNCATE t",
    )
    transport = _transport(published)
    part = transport.changes(0, 1_000_000)
    transport.close()
    assert part.data == _copied_by_psycopg(published)
    assert len(_messages(part)) > 20000
    assert b"2026-01-01 18:04:05+00" in part.data


def test_changes_come_again_until_they_are_confirmed(published: Database) -> None:
    published.execute("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    transport = _transport(published)
    first = transport.changes(0, 100)
    assert _kinds(first) == "BRICBIC"
    assert transport.changes(0, 100).data == first.data
    ends = _end_lsns(first)
    transport.confirm(ends[0])
    rest = transport.changes(ends[0], 100)
    assert _kinds(rest) == "BRIC"
    assert _end_lsns(rest) == ends[1:]
    transport.confirm(ends[1])
    assert transport.changes(ends[1], 100).is_empty
    transport.close()


def test_a_limit_never_cuts_a_transaction(published: Database) -> None:
    published.execute("INSERT INTO t SELECT generate_series(1, 50)", "INSERT INTO t VALUES (51)")
    transport = _transport(published)
    assert _kinds(transport.changes(0, 1)) == "BR" + "I" * 50 + "C"
    assert _kinds(transport.changes(0, 54)) == "BR" + "I" * 50 + "CBIC"
    transport.close()


def test_a_transaction_that_was_open_when_another_was_confirmed_comes_whole(
    published: Database,
) -> None:
    transport = _transport(published)
    with published.connect() as opened:
        opened.execute("INSERT INTO t VALUES (1)")
        published.execute("INSERT INTO t VALUES (2)")
        part = transport.changes(0, 100)
        assert _kinds(part) == "BRIC"
        transport.confirm(_end_lsns(part)[0])
        quiet = transport.changes(0, 100)
        assert quiet.is_empty
        transport.confirm(quiet.server_lsn)
        opened.execute("INSERT INTO t VALUES (3)")
    assert _kinds(transport.changes(0, 100)) == "BRIIC"
    transport.close()


def test_the_slot_follows_the_log_of_other_databases(published: Database) -> None:
    """Case 18, with less than 1 GB: what is written elsewhere is not held."""
    transport = _transport(published)
    published.server.execute("CREATE TABLE IF NOT EXISTS elsewhere (v text)")
    written = 0
    for _ in range(12):
        before = transport.status().server_lsn
        published.server.execute(
            "INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 10000)"
        )
        part = transport.changes(0, 1000)
        assert part.is_empty
        transport.confirm(part.server_lsn)
        # A slot lets go of the log up to the last record of running transactions, one each 15 s or checkpoint.
        published.server.execute("CHECKPOINT")
        written += transport.status().server_lsn - before
        assert transport.status().held_bytes < 64 << 20
    assert written > 100 << 20
    transport.close()


def test_a_commit_that_is_not_flushed_is_not_passed_by(published: Database) -> None:
    """An asynchronous commit lies between the flushed position and the one where the log is written next."""
    transport = _transport(published)
    with session(published.dsn, "test") as writer:
        writer.execute("SET synchronous_commit = off")
        for number in range(40):
            writer.execute(f"INSERT INTO t VALUES ({number})")
            part = transport.changes(0, 1000)
            if part.is_empty:
                published.server.execute("CHECKPOINT")  # it flushes the commit
                transport.confirm(part.server_lsn)
                part = transport.changes(0, 1000)
            assert _kinds(part) == "BRIC"
            transport.confirm(_end_lsns(part)[-1])
    transport.close()


def test_a_slot_that_another_reader_moved_is_an_error(published: Database) -> None:
    transport = _transport(published)
    published.execute("INSERT INTO t VALUES (1)")
    transport.changes(0, 100)
    published.execute(f"SELECT pg_replication_slot_advance('{published.name}', 'F/0')")
    with pytest.raises(InvalidError, match="moved to") as raised:
        transport.changes(0, 100)
    assert f"'{published.name}'" in str(raised.value)
    transport.close()


def test_a_second_job_is_told_the_slot_and_the_pid(published: Database) -> None:
    """Case 17."""
    transport = _transport(published)
    ((pid,),) = published.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")
    with pytest.raises(InvalidError, match=f"'{published.name}'.* pid {pid} "):
        PeekTransport(published.dsn, "second", published.name, published.name, wait_seconds=0.1)
    transport.close()
    _transport(published).close()


def test_another_reader_that_is_at_it_is_named(published: Database) -> None:
    """It reads by the replication protocol, so it does not know of the job's lock."""
    transport = _transport(published)
    reader = psycopg.connect(f"{published.dsn} replication=database", autocommit=True)
    reader.pgconn.send_query(
        f"START_REPLICATION SLOT {published.name} LOGICAL 0/0 "
        f"(proto_version '1', publication_names '{published.name}')".encode()
    )
    reader.pgconn.get_result()
    with pytest.raises(InvalidError, match=f"active for PID {reader.info.backend_pid}"):
        transport.changes(0, 100)
    reader.close()
    transport.close()


def test_a_dropped_slot_is_an_error(published: Database) -> None:
    transport = _transport(published)
    published.execute(f"SELECT pg_drop_replication_slot('{published.name}')")
    with pytest.raises(InvalidError, match="no slot of that name"):
        transport.changes(0, 100)
    transport.close()
