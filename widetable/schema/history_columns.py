"""The columns that the history of a table has besides those of the table. On disk: never change.

    _from       TIMESTAMP(3)   the time of the snapshot that made the version
    _snapshot   BIGINT         its id
    _place      BIGINT         0: the row as the snapshot shows it; -n to -1: the n records of its changelog, in order
    _deleted    BOOLEAN        whether the row is not there; of a record, whether it removes

The primary key is that of the table, then `_from`, `_snapshot` and `_place`. So one commit may give a key many records,
and files are sorted by key and time. Besides the key it has the columns that option `history.columns` names, else all.
Pure. Raises InvalidError for a column that is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from widetable.errors import InvalidError
from widetable.schema import join_options
from widetable.schema.table_schema import TableSchema

FROM: Final = "_from"
SNAPSHOT: Final = "_snapshot"
PLACE: Final = "_place"
DELETED: Final = "_deleted"
HISTORY_COLUMNS: Final = (FROM, SNAPSHOT, PLACE, DELETED)
# After the key of the table, in the primary key.
VERSION_KEY: Final = (FROM, SNAPSHOT, PLACE)


def kept_columns(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns of a table whose past its history keeps, in the order of the table."""
    named = schema.typed_options.get(join_options.HISTORY_COLUMNS)
    if not named:
        return schema.names
    kept = {*schema.primary_keys, *named}
    return tuple(name for name in schema.names if name in kept)


def check_kept(schema: TableSchema, names: Iterable[str]) -> None:
    """Refuse columns whose past is not kept, also while the snapshots are still there that have it: the answer would
    depend on when they expire.
    """
    kept = kept_columns(schema)
    missing = next((name for name in names if name not in kept), None)
    if missing is not None:
        key = join_options.HISTORY_COLUMNS.key
        raise InvalidError(
            f"column {missing!r}",
            found=f"a column that option {key!r} leaves out of the history",
            expected=f"some of {', '.join(kept)}",
            action="Leave it out, or name it in the option, together with a new table in history.table.",
        )
