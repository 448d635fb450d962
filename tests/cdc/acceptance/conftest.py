"""One server for the acceptance cases, and for each case a database, a warehouse and a job of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.databases.postgres_server import PostgresServer, postgres_server
from tests.support.databases.synced_database import SyncedDatabase


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path) -> Iterator[SyncedDatabase]:
    """A database with the table t of the cases, and a job that is not started."""
    with SyncedDatabase.made(server, tmp_path) as made:
        made.execute("create table t (id int primary key, name varchar(20), big text)")
        yield made
