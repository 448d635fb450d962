"""The slot as the server shows it: made, advanced, reserved by one session, lost."""

from __future__ import annotations

import re

import psycopg
import pytest

from tests.cdc.source.conftest import Database
from tests.support.databases.postgres_server import postgres_server
from widetable import InvalidError
from widetable_cdc.source.lsn import lsn_of
from widetable_cdc.source.session import session
from widetable_cdc.source.slot import Slot


def test_a_slot_tells_where_it_is(database: Database) -> None:
    with session(database.dsn, "shop") as connection:
        slot = Slot(connection, database.name)
        assert slot.status() is None
        ((flushed,),) = database.execute("SELECT pg_current_wal_flush_lsn()::text")
        assert slot.server_lsn() >= lsn_of(flushed) > 0
        made = slot.create()
        assert (made.plugin, made.database) == ("pgoutput", database.name)
        assert made.wal_status == "reserved"
        database.execute("CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 1000)")
        status = slot.status()
        assert status is not None
        ((confirmed, restart, flushed),) = database.execute(
            "SELECT confirmed_flush_lsn::text, restart_lsn::text, pg_current_wal_flush_lsn()::text "
            f"FROM pg_replication_slots WHERE slot_name = '{database.name}'"
        )
        assert status.confirmed_lsn == lsn_of(confirmed) == made.confirmed_lsn
        assert status.restart_lsn == lsn_of(restart)
        assert made.server_lsn < status.server_lsn <= lsn_of(flushed)
        assert status.held_bytes == status.server_lsn - status.restart_lsn > 60_000
        slot.drop()
        slot.drop()
        assert slot.status() is None


def test_a_slot_advances_and_never_goes_back(database: Database) -> None:
    with session(database.dsn, "shop") as connection:
        slot = Slot(connection, database.name)
        made = slot.create()
        database.execute("CREATE TABLE t (id int)")
        status = slot.status()
        assert status is not None
        assert slot.advance(status.server_lsn) == status.server_lsn > (made.confirmed_lsn or 0)
        assert slot.advance(1) == status.server_lsn
        # The flushed position may have grown, by checkpoints and the like, but has not gone as far.
        assert status.server_lsn <= slot.advance(1 << 62) < status.server_lsn + (1 << 24)
        slot.drop()
        with pytest.raises(InvalidError, match="no slot of that name"):
            slot.advance(1)


def test_a_second_session_is_told_who_has_the_slot(database: Database) -> None:
    with session(database.dsn, "first") as first, session(database.dsn, "second") as second:
        Slot(first, database.name).reserve()
        pid = first.info.backend_pid
        with pytest.raises(InvalidError) as raised:
            Slot(second, database.name).reserve(wait_seconds=0.1)
        assert f"'{database.name}'" in str(raised.value)
        assert re.search(rf"pid {pid} \(widetable cdc/first\)", str(raised.value))
        Slot(second, f"{database.name}_2").reserve()
    with session(database.dsn, "third") as third:
        Slot(third, database.name).reserve()


def test_an_active_slot_names_its_reader(database: Database) -> None:
    """Another program that reads it by the replication protocol."""
    with session(database.dsn, "shop") as connection:
        slot = Slot(connection, database.name)
        made = slot.create()
        database.execute("CREATE PUBLICATION p")
        reader = psycopg.connect(f"{database.dsn} replication=database", autocommit=True)
        reader.pgconn.send_query(
            f"START_REPLICATION SLOT {database.name} LOGICAL 0/0 "
            "(proto_version '1', publication_names 'p')".encode()
        )
        reader.pgconn.get_result()
        status = slot.status()
        assert status is not None
        assert status.active_pid == reader.info.backend_pid
        with pytest.raises(InvalidError, match=f"active for PID {reader.info.backend_pid}"):
            slot.advance(made.server_lsn + 1)
        reader.close()


def test_the_log_that_a_slot_waits_for_is_lost_beyond_the_limit() -> None:
    """Case 19."""
    settings = {"max_slot_wal_keep_size": "16MB", "min_wal_size": "32MB"}
    with postgres_server(**settings) as server, session(server.dsn, "shop") as connection:
        slot = Slot(connection, "s")
        slot.create()
        server.execute("CREATE TABLE t (v text)")
        for _ in range(5):
            server.execute(
                "INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 10000)",
                "SELECT pg_switch_wal()",
                "CHECKPOINT",
            )
        status = slot.status()
        assert status is not None
        assert status.wal_status == "lost"
        assert status.restart_lsn is None
        assert status.held_bytes == 0
        assert status.reason in {None, "wal_removed"}  # PostgreSQL 17 and newer say it


def test_a_server_without_room_for_a_slot_says_what_to_raise() -> None:
    with postgres_server(max_replication_slots="1") as server:
        server.execute("SELECT pg_create_physical_replication_slot('other')")
        with (
            session(server.dsn, "shop") as connection,
            pytest.raises(InvalidError, match="raise max_replication_slots"),
        ):
            Slot(connection, "job").create()


def test_a_slot_that_was_dropped_beside_a_job_names_the_way_on(database: Database) -> None:
    with session(database.dsn, "shop") as connection:
        slot = Slot(connection, database.name)
        slot.create()
        slot.drop()
        with pytest.raises(InvalidError, match="drop-slot FILE"):
            slot.advance(1)
