"""The table of a served log: what a session gave, one row for each key of a request.

    _session  _request  _row | _at    _table      _branch  _snapshot  _snapshot_mark  _schema  _asked  | user  clicks
    4f1c..    0         0    | 10:00  shop.users  main     12         7c1f..          0        {...}   | 7     3
    4f1c..    0         1    | 10:00  shop.users  main     12         7c1f..          0        {...}   | 9     null
    4f1c..    1         0    | 10:01  ...

The columns from `_session` to `_asked` are those of every log (`OWN`). The others are added when a session first needs
them: the key columns of the table that is served, and a column for each value, under its name. A value that has the
name of a key column of its table, as in a lookup of the key, is in `_served_<name>`: the key that was asked is one
thing, and the key of the row that was found, null without a row, is another.

In: what a caller names as a log. Out: the open table. Raises InvalidError for a table that is no log and for a column
that does not fit, NotFoundError for a log that does not exist, and what creating and altering a table raises.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import refused
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import InvalidError
from widetable.merge.engine import engine_of
from widetable.merge.merge_engine import RowOrigin
from widetable.operations.ddl.alteration import alter
from widetable.operations.ddl.column_path import quoted
from widetable.operations.ddl.schema_change import SchemaChange
from widetable.operations.handle.neighbour import neighbour, path_of
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import options as opt
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import TablePaths, table_name

SESSION: Final = "_session"
REQUEST: Final = "_request"
ROW: Final = "_row"
AT: Final = "_at"
TABLE: Final = "_table"
BRANCH: Final = "_branch"
SNAPSHOT: Final = "_snapshot"
MARK: Final = "_snapshot_mark"
SCHEMA: Final = "_schema"
ASKED: Final = "_asked"
KEY: Final = (SESSION, REQUEST, ROW)
OWN: Final = pa.schema(
    [
        pa.field(SESSION, pa.string(), nullable=False),
        pa.field(REQUEST, pa.int64(), nullable=False),
        pa.field(ROW, pa.int32(), nullable=False),
        pa.field(AT, pa.timestamp("us")),
        pa.field(TABLE, pa.string()),
        pa.field(BRANCH, pa.string()),
        pa.field(SNAPSHOT, pa.int64()),
        pa.field(MARK, pa.string()),
        pa.field(SCHEMA, pa.int64()),
        pa.field(ASKED, pa.string()),
    ]
)
_ARGUMENT: Final = "served_log"
_FORM: Final = "a table, or `db.name` of the same warehouse"


def name_in_log(table: OpenTable) -> str:
    """Return what a log calls a table: its `db.name`, or its path outside of a warehouse. Branches share it."""
    root = table._paths.shared_root
    place = table_name(root)
    return root if place is None else place[1]


def value_column(name: str, keys: Container[str]) -> str:
    """Return the log's column for a value. keys: the key columns of the table that is served."""
    return f"_served_{name}" if name in keys else name


def opened_log(served: OpenTable, log: Any, argument: str) -> OpenTable:
    """Return an existing log. argument: its name, for errors."""
    opened = neighbour(_main(served), log, argument) if isinstance(log, str) else log
    if not isinstance(opened, OpenTable):
        raise refused(log, argument, _FORM)
    check_log(opened.schema, opened.path, argument)
    return opened


def made_log(served: OpenTable, log: Any) -> OpenTable:
    """Return the log; one that is named and does not exist is created, with an exclusive create of its schema 0."""
    if isinstance(log, str):
        main = _main(served)
        store = SchemaStore(served._file_io, TablePaths(path_of(main, log, _ARGUMENT)))
        if not store.ids():
            fsync = str(served.schema.typed_options.get(opt.FSYNC)).lower()
            options = {opt.BUCKET.key: "1", opt.FSYNC.key: fsync}
            made = new_schema(OWN, primary_key=KEY, options=options)
            accept(made, Use.CREATE)
            store.publish(made)  # False: another session has created it
    return opened_log(served, log, _ARGUMENT)


def check_log(schema: TableSchema, path: str, argument: str) -> None:
    """Refuse a table that is no log."""
    problem = None
    if schema.primary_keys != KEY:
        problem = f"the primary key ({', '.join(schema.primary_keys)})"
    elif engine_of(schema).origin is not RowOrigin.LAST:
        problem = f"{opt.MERGE_ENGINE.key} = {schema.options.get(opt.MERGE_ENGINE.key)}"
    else:
        for field in OWN:
            if field.name not in schema.names:
                problem = f"no column {field.name!r}"
            elif schema.arrow_field(field.name).type != field.type:
                problem = f"column {field.name!r} of the type {schema.arrow_field(field.name).type}"
            if problem is not None:
                break
    if problem is not None:
        raise InvalidError(
            argument,
            found=f"{path}, with {problem}",
            expected=f"a log, with the primary key ({', '.join(KEY)}) and the columns "
            f"{', '.join(f'{field.name} {field.type}' for field in OWN)}",
            action="Name a table that does not exist: it is created as a log.",
        )


def add_columns(log: OpenTable, fields: Sequence[pa.Field]) -> None:
    """Add the columns that the log does not have yet. Raises InvalidError for one that it has with another type.

    Two sessions may add columns at once: the one that comes second starts over with those of the first.
    """
    while True:
        schema = log.schema
        missing = [field for field in fields if not _has(schema, field, log.path)]
        if not missing:
            return
        added = [pa.field(quoted(field.name), field.type) for field in missing]
        try:
            alter(log._file_io, log._paths, SchemaChange(add_columns=added))
        except InvalidError:
            if log.schema.id == schema.id:
                raise


def _has(schema: TableSchema, field: pa.Field, path: str) -> bool:
    if field.name not in schema.names:
        return False
    kind = schema.arrow_field(field.name).type
    if field.name in OWN.names or kind != field.type:
        what = "a column of its own" if field.name in OWN.names else f"a column of the type {kind}"
        raise InvalidError(
            f"column {field.name!r} of {_ARGUMENT} {path}",
            found=f"{what}, for values of the type {field.type}",
            expected="a column of their type, or none, for each key column and value",
            action="Name another log, or give the value another name (`prefix`).",
        )
    return True


def _main(table: OpenTable) -> OpenTable:
    """Return the table itself for one of its branches: logs are named beside it."""
    return OpenTable(table._paths.shared_root, table._file_io)
