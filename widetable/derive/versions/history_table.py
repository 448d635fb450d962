"""The history of a table: a table that has every version of every row (option `history.table`).

    base     id | city        history    id  _from     _snapshot  _place | city   _deleted
             1  | Rome                   1   10:00     1          0      | Oslo   false
                                         1   10:05     2          0      | Rome   false

It begins with an image of the oldest snapshot that was there when it was made; its options say which one, of which
table, and of which columns, so that a table that was dropped and made again gets no versions of the other, nor does a
column. Each commit names the last snapshot that it has, and its mark: so a history is not taken for that of snapshots
which got the ids of others. The history is bucketed by the bucket key
of the base, in as many buckets as that had when it was made; nobody relies on equal buckets.

In: a table with the option. Out: its history. Raises InvalidError for a table that is not this history, whose columns
are not those of the base any more, or whose base has lost snapshots that the history has.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.derive.changes.column_ids import column_ids
from widetable.derive.changes.derived_table import made_table
from widetable.derive.changes.followed_until import followed_until
from widetable.errors import InvalidError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.neighbour import name_of, path_of
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema.history_columns import (
    DELETED,
    FROM,
    PLACE,
    SNAPSHOT,
    VERSION_KEY,
    kept_columns,
)
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import TablePaths

_OPTION: Final = f"option {join_options.HISTORY_TABLE.key!r}"


class Beginning(NamedTuple):
    """The snapshot of the base with which a history begins. millis: its time. column_ids: of the base's columns."""

    identity: str
    snapshot_id: int
    millis: int
    column_ids: str

    def to_text(self) -> str:
        """Return the value of the option."""
        return f"{self.identity} {self.snapshot_id} {self.millis} {self.column_ids}"


def beginning_with(base: OpenTable, snapshot: Snapshot) -> Beginning:
    """Return the beginning of a history that is made now."""
    identity, columns = base._committer.identity, ids_text(base.schema)
    return Beginning(identity, snapshot.id, snapshot.time_millis, columns)


def ids_text(base: TableSchema) -> str:
    """Return the ids of the kept columns and their nested fields, by name: of two columns of one name they differ."""
    ids = column_ids(base, sorted(kept_columns(base)))
    return json.dumps(ids, separators=(",", ":"), ensure_ascii=False)


def history_schema(base: TableSchema) -> pa.Schema:
    """Return the columns of a history, in order: the key of a version, the other kept columns, `_deleted`."""
    added = {
        FROM: pa.timestamp("ms"),
        SNAPSHOT: pa.int64(),
        PLACE: pa.int64(),
    }
    key = [base.arrow_field(name) for name in base.primary_keys]
    version = [pa.field(name, added[name], nullable=False) for name in VERSION_KEY]
    rest = [name for name in kept_columns(base) if name not in base.primary_keys]
    values = [base.arrow_field(name).with_nullable(True) for name in rest]
    return pa.schema([*key, *version, *values, pa.field(DELETED, pa.bool_(), nullable=False)])


def history_name(base: OpenTable) -> str | None:
    """Return the `db.name` of the history that the table's option names; None without the option."""
    return base.schema.typed_options.get(join_options.HISTORY_TABLE)


def find_history(base: OpenTable) -> OpenTable | None:
    """Return the history of a table, or None if it has none, or none yet."""
    name = history_name(base)
    if name is None:
        return None
    history = OpenTable(path_of(base, name, _OPTION), base._file_io)
    if not SchemaStore(base._file_io, TablePaths(history.path)).ids():
        return None
    options = history.schema.typed_options
    expected, actual = history_schema(base.schema), history.schema.arrow_schema()
    of, begins = options.get(join_options.HISTORY_OF), options.get(join_options.HISTORY_BEGINS)
    if of != name_of(base) or begins is None:
        problem = f"{name}, a table that is not its history"
    elif begins.split()[0] != base._committer.identity:
        problem = f"{name}, the history of a dropped table that had this name"
    elif not actual.equals(expected):
        problem = f"{name}, with the columns {', '.join(actual.names)}, of which some differ"
    elif beginning_of(history).column_ids != ids_text(base.schema):
        problem = f"{name}, the history of other columns, some of which had the same names"
    else:
        return history
    raise InvalidError(
        f"{_OPTION} of {name_of(base)!r}",
        found=problem,
        expected=f"a history with the columns {', '.join(expected.names)}",
        action="Name a table that does not exist: the next maintain creates it. The old history stays as it is.",
    )


def made_history(base: OpenTable, name: str, begins: Beginning) -> OpenTable:
    """Return the history; create it if it does not exist."""
    schema = base.schema
    options = {
        opt.BUCKET_KEY.key: ",".join(schema.bucket_keys),
        join_options.HISTORY_OF.key: name_of(base),
        join_options.HISTORY_BEGINS.key: begins.to_text(),
    }
    key = [*schema.primary_keys, *VERSION_KEY]
    path, fields = path_of(base, name, _OPTION), history_schema(schema)
    return made_table(base, path, fields, key, options, partial(find_history, base))


def beginning_of(history: OpenTable) -> Beginning:
    """Return the snapshot of the base with which the history begins."""
    begins = history.schema.typed_options.get(join_options.HISTORY_BEGINS)
    identity, id, millis, columns = (begins or "").split(" ", 3)
    return Beginning(identity, int(id), int(millis), columns)


def user_of(base: OpenTable) -> str:
    """Return the commit user of a history; the identifier of its commits is the snapshot up to which they go."""
    return f"history/{name_of(base)}"


def written_until(base: OpenTable, history: OpenTable, latest: Snapshot | None) -> int:
    """Return the base's snapshot up to which a snapshot of the history has all versions; 0 before the first commit."""
    renew = "Name a new table in history.table: it begins with the oldest snapshot."
    user = user_of(base)
    return followed_until(base, history, latest, user, what="history", renew=renew)
