"""The table of left rows that wait for a match: it is created if it is missing, and checked otherwise.

    left columns | _lookup_join STRING: query and join | _lookup_batch BIGINT: the micro-batch that the row came in
    primary key: _lookup_join, the column that the user names, _lookup_batch

It is an ordinary table of engine `deduplicate` in one bucket; several joins may share it. It has a snapshot from the
start, so a batch can always read one. Raises InvalidError for columns that cannot be stored so, for a table with other
columns and for arguments of a wrong type, NotFoundError for a key that is no left column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import path, text, whole_number
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.lookups.join_plan import JoinArguments
from widetable.errors import InvalidError, NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages
from widetable.schema import options as opt
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.locate import locate_beside
from widetable.storage.paths import TablePaths

JOIN: Final = "_lookup_join"
BATCH: Final = "_lookup_batch"
_USER: Final = "widetable-lookup-join"
_MADE: Final = {"widetable.lookup.pending": "made"}


@dataclass(frozen=True)
class LateTable:
    """The pending table, picklable. key: the left column that distinguishes rows. batches: the number of retries."""

    table: OpenTable
    identity: str
    key: str
    batches: int


def late_table(
    left: pa.Schema, given: JoinArguments, *, beside: FileIO, is_synced: bool
) -> LateTable | None:
    """Open or create the pending table; return None if no row waits.

    beside: the storage of the dim. is_synced: whether a new table syncs its files. Several processes may create it at
    once: one of them publishes its schema. Each then commits the first snapshot with the same identifier, so that only
    one is published.
    """
    batches = whole_number(given.retry_batches, "retry_batches", least=0)
    named = [name for name in ("pending", "pending_key") if getattr(given, name) is not None]
    if not batches:
        if named:
            raise _wrong(named[0], "retry_batches is missing", "both arguments, or none of them")
        return None
    if len(named) < 2:
        missing = "pending" if given.pending is None else "pending_key"
        raise _wrong(missing, f"no value, with retry_batches={batches}", "a value")
    key = text(given.pending_key, "pending_key")
    if key not in left.names:
        raise NotFoundError(
            f"column {key!r}",
            found="no such column in the left rows",
            expected=f"one of {', '.join(left.names)}",
            action="Correct pending_key=.",
            code=ErrorCode.COLUMN_NOT_FOUND,
        )
    schema = _schema(left, key, is_synced)
    located, root = locate_beside(beside, path(given.pending, "pending"))
    store = SchemaStore(located, TablePaths(root))
    if not store.ids():
        store.publish(schema)
    table = OpenTable(root, located)
    _check(table, schema)
    if table._committer.snapshots.latest_id() is None:
        append_messages(table, [], Identity.of(_USER, 0), properties=_MADE)
    return LateTable(table, table._committer.identity, key, batches)


def _schema(left: pa.Schema, key: str, is_synced: bool) -> TableSchema:
    for name in (JOIN, BATCH):
        if name in left.names:
            raise _wrong(
                f"column {name!r}", "the left rows have this column", "another column name"
            )
    fields = [field.with_nullable(field.name != key) for field in left]
    own = [pa.field(JOIN, pa.string(), False), pa.field(BATCH, pa.int64(), False)]
    options = {opt.BUCKET.key: "1", opt.FSYNC.key: str(is_synced).lower()}
    made = new_schema(pa.schema([*fields, *own]), primary_key=[JOIN, key, BATCH], options=options)
    accept(made, Use.CREATE)
    return made


def _check(table: OpenTable, expected: TableSchema) -> None:
    schema = table.schema
    same = schema.arrow_schema().equals(expected.arrow_schema())
    if not same or schema.primary_keys != expected.primary_keys:
        raise InvalidError(
            f"pending table {table.path}",
            found=f"{_printed(schema)}",
            expected=f"{_printed(expected)}, as the left rows have them",
            action="Name a table that does not exist: it is created.",
        )


def _printed(schema: TableSchema) -> str:
    columns = ", ".join(f"{field.name} {field.type}" for field in schema.fields)
    return f"the columns {columns} with the key {', '.join(schema.primary_keys)}"


def _wrong(subject: str, actual: str, expected: str) -> InvalidError:
    return InvalidError(
        subject,
        found=actual,
        expected=expected,
        action="Pass retry_batches=, pending= (the path of a table) and pending_key= (a left column) together.",
    )
