"""Checks before the first change: what a real server would refuse its users, and what says that positions changed."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from tests.cdc.source.conftest import Database
from tests.support.databases.postgres_server import postgres_server
from tests.support.databases.standby_server import standby_of
from widetable import InvalidError
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.fail_over import check_fail_over
from widetable_cdc.source.publication import Publication
from widetable_cdc.source.server_checks import (
    ServerFacts,
    check_facts,
    check_position,
    check_same_server,
    check_server,
    check_slot,
    check_tables,
    server_facts,
    slot_warning,
    table_problem,
)
from widetable_cdc.source.session import session
from widetable_cdc.source.slot import Slot, SlotStatus

_FACTS = ServerFacts(180006, "logical", False, 7, 1, 1000, "shop")
_STATUS = SlotStatus("s", "pgoutput", "shop", None, 500, 600, "reserved", None, 1000)


def test_facts_of_a_server(database: Database) -> None:
    with session(database.dsn, "shop") as connection:
        facts = check_server(connection, "no_slot")
        status = Slot(connection, database.name).create()
        again = check_server(connection, database.name)
    ((identifier,),) = database.execute("SELECT system_identifier FROM pg_control_system()")
    assert facts.version // 10000 >= 14
    assert (facts.wal_level, facts.is_in_recovery, facts.database) == (
        "logical",
        False,
        database.name,
    )
    assert (facts.system_identifier, facts.timeline) == (identifier, 1)
    check_same_server(facts, again, status)


# The table, and whether the server lets its users update and delete once it is published (the server is asked).
_TABLES = {
    "CREATE TABLE t (id int PRIMARY KEY)": True,
    "CREATE TABLE t (id int)": False,
    "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)": False,
    "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING": False,
    "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY FULL": True,
    "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE); ALTER TABLE t REPLICA IDENTITY FULL": True,
    "CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED)": True,
    "CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED); "
    "ALTER TABLE t REPLICA IDENTITY FULL": False,
    "CREATE TABLE t (id int, g int GENERATED ALWAYS AS (id * 2) STORED PRIMARY KEY)": False,
    "CREATE TABLE t (id int UNIQUE NOT NULL); ALTER TABLE t REPLICA IDENTITY USING INDEX t_id_key": True,
    "CREATE TABLE t (id int UNIQUE NOT NULL); ALTER TABLE t REPLICA IDENTITY USING INDEX t_id_key; "
    "DROP INDEX IF EXISTS nothing; ALTER TABLE t DROP CONSTRAINT t_id_key": False,
}


@pytest.mark.parametrize(("made", "allowed"), _TABLES.items())
def test_a_table_that_would_refuse_its_users_writes_has_a_problem(
    made: str, allowed: bool, database: Database
) -> None:
    database.execute(*made.split(";"), "INSERT INTO t (id) VALUES (1)")
    with session(database.dsn, "shop") as connection:
        table = source_tables(connection, ["t"])["public", "t"]
        Publication(connection, "p").ensure([table])
    refused = []
    for statement in ("UPDATE t SET id = 2", "DELETE FROM t"):
        try:
            database.execute(statement)
        except psycopg.errors.DatabaseError as error:
            refused.append(error.sqlstate)
    assert bool(refused) != allowed
    assert (table_problem(table) is None) == allowed
    if not allowed:
        assert set(refused) <= {"55000", "42P10"}


def test_a_table_without_a_key_has_a_problem_though_full_lets_its_users_write(
    database: Database,
) -> None:
    database.execute("CREATE TABLE t (id int)", "ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("CREATE TABLE u (id int)", "CREATE TABLE fine (id int PRIMARY KEY)")
    with session(database.dsn, "shop") as connection:
        tables = source_tables(connection, ["*"])
    with pytest.raises(InvalidError, match="2 tables of the source") as raised:
        check_tables(tables.values())
    assert "public.t: it has no primary key" in str(raised.value)
    assert "public.u: it has no primary key" in str(raised.value)
    assert "public.fine" not in str(raised.value)
    check_tables([tables["public", "fine"]])


def test_a_slot_of_another_database_or_plugin_is_refused(database: Database) -> None:
    with session(database.dsn, "shop") as connection:
        status = Slot(connection, database.name).create()
        with pytest.raises(InvalidError, match="for the database other"):
            check_slot(status, "other")
    with (
        session(database.server.dsn, "shop") as connection,
        pytest.raises(InvalidError, match=f"for the database {database.name};"),
    ):
        check_server(connection, database.name)
    with pytest.raises(InvalidError, match="plugin test_decoding"):
        check_slot(replace(_STATUS, plugin="test_decoding"), "shop")


def test_a_lost_slot_is_refused_with_the_way_on() -> None:
    """Case 19; test_slot.py shows that the server says it."""
    lost = replace(_STATUS, wal_status="lost", restart_lsn=None, reason="wal_removed")
    with pytest.raises(InvalidError, match=r"lost slot \(wal_removed\).*copies the tables again"):
        check_slot(lost, "shop")


def test_an_active_slot_names_the_pid() -> None:
    with pytest.raises(InvalidError, match="pid 4711 reads it"):
        check_slot(replace(_STATUS, active_pid=4711), "shop")


def test_a_slot_in_danger_warns() -> None:
    assert slot_warning(_STATUS) is None
    assert slot_warning(_STATUS, 500) is None
    assert "500 bytes" in (slot_warning(_STATUS, 499) or "")
    warning = slot_warning(replace(_STATUS, wal_status="unreserved"))
    assert warning is not None
    assert "max_slot_wal_keep_size" in warning


def test_a_server_that_does_not_log_enough_is_refused() -> None:
    with postgres_server(wal_level="replica") as server, session(server.dsn, "shop") as connection:
        with pytest.raises(InvalidError, match="wal_level"):
            check_server(connection, "s")
        old = replace(server_facts(connection), version=130014, wal_level="logical")
    with pytest.raises(InvalidError, match="PostgreSQL 14"):
        check_facts(old)


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (replace(_FACTS, system_identifier=8), "cluster 8"),
        (replace(_FACTS, database="other"), "database other"),
        (replace(_FACTS, server_lsn=999), "ends at 0/3E7"),
    ],
)
def test_another_server_is_found(now: ServerFacts, found: str) -> None:
    check_same_server(_FACTS, _FACTS, _STATUS)
    with pytest.raises(InvalidError, match=found):
        check_same_server(_FACTS, now, _STATUS)


def test_a_slot_behind_the_end_of_the_log_is_found() -> None:
    with pytest.raises(InvalidError, match="behind the end of the log"):
        check_same_server(_FACTS, _FACTS, replace(_STATUS, confirmed_lsn=1001))


def test_a_slot_that_went_ahead_of_the_job_is_found() -> None:
    check_position(_STATUS, 600)
    check_position(_STATUS, 700)
    with pytest.raises(InvalidError, match="ahead of the job"):
        check_position(_STATUS, 599)


def test_a_promoted_standby_is_another_timeline() -> None:
    with postgres_server() as primary, standby_of(primary) as standby:
        with session(primary.dsn, "shop") as connection:
            before = check_server(connection, "s")
        with session(standby.dsn, "shop") as connection:
            following = server_facts(connection)
            assert following.is_in_recovery
            assert following.system_identifier == before.system_identifier
            standby.execute("SELECT pg_promote(true)")
            promoted = server_facts(connection)
        assert (promoted.is_in_recovery, promoted.timeline) == (False, 2)
        with pytest.raises(InvalidError, match="timeline 2, made by a fail-over, without"):
            check_fail_over(before, promoted, None, 100, 100)
