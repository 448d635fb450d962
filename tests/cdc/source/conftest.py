"""A PostgreSQL server for each module of these tests, and a database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.support.databases.postgres_server import PostgresServer, postgres_server


@dataclass(frozen=True)
class Database:
    """A database. name: also for slots, which are the server's."""

    server: PostgresServer
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn_of(self.name)

    def execute(self, *statements: str) -> list[Any]:
        return self.server.execute(*statements, database=self.name)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a session in a transaction."""
        return psycopg.connect(self.dsn)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    number = server.execute("SELECT count(*) FROM pg_database")[0][0]
    name = f"shop_{number}"
    server.execute(f"CREATE DATABASE {name}")
    yield Database(server, name)
    server.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
        f"WHERE database = '{name}' AND NOT active"
    )
