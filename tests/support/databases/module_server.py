"""A fixture: one PostgreSQL server for the tests of a module. A module imports it, and lists it in `__all__`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.databases.postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started
