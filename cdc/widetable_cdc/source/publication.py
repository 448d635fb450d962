"""The publication of a job: which tables the server sends changes of.

A connection and a name go in. `ensure` makes the publication, for named tables only, and takes tables into it. What is
published comes out, with what would leave rows or columns out silently.

A change is sent if its table was in the publication when the change was made, not when it was committed. A transaction
that runs while a table is taken in may therefore be sent in part (measured, PostgreSQL 18.6: of two inserts around
ALTER PUBLICATION the second one alone). So `ensure` returns a floor: a copy of these tables counts only in a snapshot
whose xmin has reached it.

Whether a table is published is asked under a lock of the table. So a transaction that alters or truncates one for hours
would hold up the job, and with it all other tables. It is waited for a limited time.

Raises InvalidError for a publication that cannot serve the job, and what `server_errors` raises: StorageError for a
table that stays locked, so that the job tries again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from widetable import InvalidError
from widetable_cdc.source.server_errors import server_errors
from widetable_cdc.source.session import Connection
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.sql_name import qualified, quoted

_SETTINGS: Final = """
SELECT pubviaroot,
       array_remove(ARRAY[CASE WHEN NOT pubinsert THEN 'insert' END, CASE WHEN NOT pubupdate THEN 'update' END,
                          CASE WHEN NOT pubdelete THEN 'delete' END, CASE WHEN NOT pubtruncate THEN 'truncate' END],
                    NULL)
FROM pg_publication WHERE pubname = %s
"""
_MEMBERS: Final = """
SELECT t.schemaname::text, t.tablename::text, t.attnames::text[], t.rowfilter,
       coalesce(r.oid, s.oid, p.oid)::int8
FROM pg_publication_tables AS t
JOIN pg_publication AS p USING (pubname)
JOIN pg_namespace AS n ON n.nspname = t.schemaname
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_publication_rel AS r ON r.prpubid = p.oid AND r.prrelid = c.oid
LEFT JOIN pg_publication_namespace AS s ON s.pnpubid = p.oid AND s.pnnspid = n.oid
WHERE t.pubname = %s
"""
_PARTITIONED: Final = "SELECT 1 FROM pg_class WHERE oid = ANY (%s) AND relkind = 'p' LIMIT 1"
_FLOOR: Final = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"


@dataclass(frozen=True)
class PublishedTable:
    """A table of a publication. membership: the oid of its entry, which another one has after it was taken out and in
    again, or after its columns or filter were changed. columns: those that are sent. row_filter: the condition of
    rows that are sent; None for all.
    """

    membership: int
    columns: tuple[str, ...]
    row_filter: str | None


def floor_xid(connection: Connection) -> int:
    """Return the transaction below which all that run now lie, a number of 64 bits."""
    with server_errors("the source"):
        row = connection.execute(_FLOOR).fetchone()
    assert row is not None, "a function returns a row"
    return int(str(row[0]))


class Publication:
    """A publication of the database that `connection` is of. lock_seconds: how long a locked table is waited for."""

    def __init__(self, connection: Connection, name: str, lock_seconds: float = 10.0) -> None:
        self.name = name
        self._lock_timeout = f"{max(1, round(lock_seconds * 1000))}ms"
        self._connection = connection
        self._subject = f"the publication {name!r}"

    def ensure(self, tables: Iterable[SourceTable]) -> int | None:
        """Make the publication if there is none, and take in what it lacks; check the tables first (`check_tables`).
        Returns the floor of the tables that were taken in, a transaction's number of 64 bits; None if none was.
        """
        wanted = list(tables)
        with server_errors(self._subject):
            row = self._connection.execute(_SETTINGS, (self.name,)).fetchone()
            if row is None:
                self._connection.execute(
                    f"CREATE PUBLICATION {quoted(self.name)} WITH (publish_via_partition_root = true)"
                )
            else:
                self._check(row, wanted)
        members = self.members()
        lacking = [each for each in wanted if (each.schema, each.name) not in members]
        if not lacking:
            return None
        names = ", ".join(qualified(each.schema, each.name) for each in lacking)
        with self._locking():
            self._connection.execute(f"ALTER PUBLICATION {quoted(self.name)} ADD TABLE {names}")
        return floor_xid(self._connection)

    def members(self) -> dict[tuple[str, str], PublishedTable]:
        """Return what is published, by schema and name. Without the publication nothing is."""
        with self._locking():
            rows = self._connection.execute(_MEMBERS, (self.name,)).fetchall()
        return {(row[0], row[1]): _published(row) for row in rows}

    def take_out(self, tables: Iterable[SourceTable]) -> None:
        """Take tables out, so that their changes are sent no more; nothing for those that are not in it."""
        members = self.members()
        names = [
            qualified(each.schema, each.name)
            for each in tables
            if (each.schema, each.name) in members
        ]
        if names:
            with self._locking():
                self._connection.execute(
                    f"ALTER PUBLICATION {quoted(self.name)} DROP TABLE {', '.join(names)}"
                )

    def drop(self) -> None:
        """Remove the publication; nothing if there is none. Drop the slot first: reading it would fail."""
        with server_errors(self._subject):
            self._connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(self.name)}")

    @contextmanager
    def _locking(self) -> Iterator[None]:
        """Limit how long the statements within wait for locked tables."""
        with server_errors(self._subject), self._connection.transaction():
            self._connection.execute(
                "SELECT set_config('lock_timeout', %s, true)", (self._lock_timeout,)
            )
            yield

    def _check(self, row: tuple[Any, ...], wanted: list[SourceTable]) -> None:
        is_via_root, unsent = row
        if unsent:
            raise InvalidError(
                self._subject,
                found=f"one that does not send {' and '.join(unsent)}",
                expected="all kinds of changes",
                action="Run ALTER PUBLICATION ... SET (publish = 'insert, update, delete, truncate'), and copy the "
                "tables again.",
            )
        oids = [each.oid for each in wanted]
        if not is_via_root and self._connection.execute(_PARTITIONED, (oids,)).fetchone():
            raise InvalidError(
                self._subject,
                found="one that sends changes under the names of partitions",
                expected="publish_via_partition_root = true",
                action="Run ALTER PUBLICATION ... SET (publish_via_partition_root = true).",
            )


def _published(row: tuple[Any, ...]) -> PublishedTable:
    _, _, columns, row_filter, membership = row
    return PublishedTable(membership, tuple(columns or ()), row_filter)
