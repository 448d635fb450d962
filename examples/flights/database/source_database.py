"""The PostgreSQL database in which aircraft and weather live: a server of the demo's own, filled while the demo runs.

    file of records ─► one transaction: newest version of each key in, older ones out ─► LSN noted
    halfway         ─► ALTER TABLE planes ADD COLUMN checked boolean DEFAULT false, and corrections of it

A database has no late records: a version that is older than the one that is there is not written. So its rows at the
end are the newest versions of the files, and its log has what changed on the way. `rows` reads a table as it is now,
without widetable. Used by the thread that brings files, and read by others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from examples.flights.column_group import ColumnGroup
from examples.flights.dimensions import CHECKED, DIMENSIONS, PLANES
from examples.flights.inputs import FILE_COUNTS
from tests.support.databases.postgres_server import PostgresServer, postgres_server

DATABASE: Final = "registers"
_SQL_TYPES: Final = {
    pa.string(): "text",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.timestamp("us", tz="UTC"): "timestamptz",
}
_GROUPS: Final = {group.name: group for group in DIMENSIONS}


class SourceDatabase:
    """A database with one table for each dimension. dsn: of it. lsns, times: of the files that came, by dimension."""

    def __init__(self, server: PostgresServer) -> None:
        server.execute(f"CREATE DATABASE {DATABASE}")
        self.dsn = server.dsn_of(DATABASE)
        self.lsns: dict[str, list[int]] = {name: [] for name in _GROUPS}
        self.times: dict[str, list[float]] = {name: [] for name in _GROUPS}
        self.row_counts: dict[str, list[int]] = {name: [] for name in _GROUPS}
        self._connection = psycopg.connect(self.dsn, autocommit=True)
        for group in DIMENSIONS:
            self._connection.execute(_create(group))

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[SourceDatabase]:
        """Start a server, and stop and remove it at the end."""
        with postgres_server(timezone="America/New_York") as server:
            database = cls(server)
            try:
                yield database
            finally:
                database._connection.close()

    def bring(self, name: str, file: Path) -> None:
        """Write a file of records in one transaction."""
        group, records = _GROUPS[name], pq.read_table(file)
        columns = group.written_schema.names
        with self._connection.transaction():
            self._connection.execute(
                f"CREATE TEMP TABLE came ON COMMIT DROP AS SELECT {', '.join(columns)} FROM {name} LIMIT 0"
            )
            with self._connection.cursor().copy("COPY came FROM STDIN") as copy:
                for row in records.select(columns).to_pylist():
                    copy.write_row(list(row.values()))
            self._connection.execute(_upsert(group))
        self.row_counts[name].append(records.num_rows)
        self.times[name].append(time.time())
        self.lsns[name].append(self.lsn())

    def bringing(self) -> dict[str, Callable[[Path], None]]:
        """Return what brings a file, by dimension. Behind half of its files the register of aircraft is altered."""
        return {name: partial(self._bring_or_alter, name) for name in _GROUPS}

    def _bring_or_alter(self, name: str, file: Path) -> None:
        self.bring(name, file)
        if name == PLANES.name and len(self.lsns[name]) == FILE_COUNTS[name] // 2 + 1:
            self.alter()

    def alter(self) -> None:
        """Add a column to the register of aircraft, with a default for all that are there, and correct some."""
        self._connection.execute(
            f"ALTER TABLE {PLANES.name} ADD COLUMN {CHECKED.name} boolean DEFAULT false"
        )
        self._connection.execute(
            f"UPDATE {PLANES.name} SET {CHECKED.name} = true WHERE tailnum < 'N3'"
        )

    def lsn(self) -> int:
        """Return up to where the log is written."""
        return self._number("SELECT pg_current_wal_insert_lsn() - '0/0'")

    def confirmed(self, slot: str) -> int:
        """Return up to where a slot's reader has confirmed the log; 0 without."""
        return self._number(
            f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{slot}'"
        )

    def rows(self, group: ColumnGroup) -> pa.Table:
        """Read a whole table."""
        with adbc.connect(self.dsn) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {group.name}")
            return cursor.fetch_arrow_table()

    def _number(self, query: str) -> int:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])


def _create(group: ColumnGroup) -> str:
    columns = [f"{field.name} {_SQL_TYPES[field.type]}" for field in group.written_schema]
    return f"CREATE TABLE {group.name} ({', '.join(columns)}, PRIMARY KEY ({_listed(group.key_names)}))"


def _upsert(group: ColumnGroup) -> str:
    """The newest version of each key that came, if it is newer than the one that is there."""
    names, key, sequence = group.written_schema.names, _listed(group.key_names), group.sequence
    others = [name for name in names if name not in group.key_names]
    return (
        f"INSERT INTO {group.name} ({_listed(names)}) SELECT DISTINCT ON ({key}) * FROM came "
        f"ORDER BY {key}, {sequence} DESC ON CONFLICT ({key}) DO UPDATE SET "
        f"{', '.join(f'{name} = excluded.{name}' for name in others)} "
        f"WHERE excluded.{sequence} > {group.name}.{sequence}"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
