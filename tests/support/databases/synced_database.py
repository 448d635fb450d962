"""A database of a test's own, a job that copies it into a warehouse of its own, and what tests compare."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

import widetable as wt
from tests.support.databases.postgres_server import PostgresServer
from widetable_cdc import Sync, SyncConfig, SyncStatus, config_of

_NUMBERS: Final = itertools.count()


class SyncedDatabase:
    """A database and its job. dsn: of the database. warehouse: where the targets are, in the database `shop`."""

    def __init__(self, server: PostgresServer, name: str, warehouse: Path) -> None:
        self.server = server
        self.name = name
        self.warehouse = warehouse
        self.dsn = server.dsn_of(name)

    @classmethod
    @contextmanager
    def made(cls, server: PostgresServer, folder: Path) -> Iterator[SyncedDatabase]:
        """Make a database, and drop it and its slots at the end."""
        name = f"case_{next(_NUMBERS)}"
        server.execute(f"create database {name}")
        made = cls(server, name, folder / "warehouse")
        try:
            yield made
        finally:
            server.execute(
                f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'",
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
                f"where database = '{name}'",
                f"drop database {name} with (force)",
            )

    def execute(self, *statements: str) -> list[Any]:
        """Run statements, each in its own transaction; return the rows of the last one."""
        return self.server.execute(*statements, database=self.name)

    def transaction(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with psycopg.connect(self.dsn) as connection:
            for statement in statements:
                connection.execute(statement)

    def config(self, **entries: Any) -> SyncConfig:
        """Return the configuration of the job. entries: replace those of the file."""
        usual: dict[str, Any] = {
            "name": self.name,
            "tables": ["public.*"],
            "source": {"dsn": self.dsn},
            "target": {
                "warehouse": str(self.warehouse),
                "database": "shop",
                "options": {"widetable.fsync": "false", "changelog-producer": "lookup"},
            },
        }
        return config_of(usual | entries)

    def run(self, **entries: Any) -> SyncStatus:
        """Run a job, as a new process would, until it has what the source has now."""
        return Sync(self.config(**entries)).run("caught-up")

    def table(self, name: str = "t") -> wt.Table:
        return wt.Catalog(str(self.warehouse)).table(f"shop.{name}")

    def target(self, name: str = "t") -> list[dict[str, Any]]:
        """Return the rows of a target in the order of their columns."""
        return in_order(self.table(name).scan().to_arrow().to_pylist())

    def source(self, name: str = "t") -> list[dict[str, Any]]:
        """Return the rows of a table of the source in the order of their columns."""
        with psycopg.connect(self.dsn) as connection:
            cursor = connection.execute(f"select * from {name}")
            names = [column.name for column in cursor.description or ()]
            return in_order([dict(zip(names, row, strict=True)) for row in cursor])

    def folded(self, name: str = "t") -> list[dict[str, Any]]:
        """Return the rows that the whole changelog of a target folds to; each key is inserted once before it ends."""
        table = self.table(name)
        keys = table.schema.primary_keys
        state: dict[tuple[Any, ...], dict[str, Any]] = {}
        for change in table.changes(0, table.snapshots()[-1].id).to_pylist():
            kind = change.pop("_row_kind")
            key = tuple(change[column] for column in keys)
            if kind in ("-U", "-D"):
                assert state.pop(key) == change
            else:
                assert key not in state, "a row is inserted twice"
                state[key] = change
        return in_order(list(state.values()))


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by their values, column by column."""
    return sorted(rows, key=lambda row: [_sortable(value) for value in row.values()])


def _sortable(value: Any) -> str:
    return f"{value:020d}" if isinstance(value, int) and value >= 0 else repr(value)
