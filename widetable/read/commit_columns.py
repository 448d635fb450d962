"""The columns of changes besides their row: the row kind, and the commit.

    kind       _row_kind                                            +I, -U, +U, -D
    commit     _row_kind, _snapshot_id, _commit_time
    standard   _change_type, _commit_version, _commit_timestamp     insert, update_preimage, update_postimage, delete

In: batches with `_row_kind` last, of one snapshot each. Out: batches with these columns last. Source of `standard`:
Spark's change data columns. Raises InvalidError if the table has a column with such a name.

    k  _row_kind        k  _change_type      _commit_version  _commit_timestamp
    1  -U          ->   1  update_preimage   7                1970-01-01 00:00:01
    1  +U               1  update_postimage  7                1970-01-01 00:00:01      snapshot 7, committed at 1000 ms
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import pyarrow as pa

from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import InvalidError
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.write.table_state import TableState

KIND, COMMIT, STANDARD = "kind", "commit", "standard"
FORMS: Final = (KIND, COMMIT, STANDARD)

KIND_FIELD: Final = pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False)
SNAPSHOT_ID: Final = pa.field("_snapshot_id", pa.int64(), nullable=False)
COMMIT_TIME: Final = pa.field("_commit_time", pa.timestamp("ms", "UTC"), nullable=False)
_TYPE: Final = pa.field("_change_type", pa.string(), nullable=False)
_VERSION: Final = pa.field("_commit_version", pa.int64(), nullable=False)
_TIMESTAMP: Final = pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False)
_FIELDS: Final[dict[str, tuple[pa.Field, ...]]] = {
    KIND: (KIND_FIELD,),
    COMMIT: (KIND_FIELD, SNAPSHOT_ID, COMMIT_TIME),
    STANDARD: (_TYPE, _VERSION, _TIMESTAMP),
}
_TYPES: Final = {
    "+I": "insert",
    "-U": "update_preimage",
    "+U": "update_postimage",
    "-D": "delete",
}


def names_of_form(form: str) -> tuple[str, ...]:
    """Return the columns that a form adds at the end.

    Parameters
    ----------
    form : str
        One of FORMS.

    Returns
    -------
    tuple of str
        Their names.
    """
    return tuple(field.name for field in _FIELDS[form])


def schema_of_form(schema: pa.Schema, form: str) -> pa.Schema:
    """Return the schema of changes in a form.

    Parameters
    ----------
    schema : pyarrow.Schema
        A schema with `_row_kind` last.
    form : str
        One of FORMS.

    Returns
    -------
    pyarrow.Schema
        The schema with the columns of the form.
    """
    columns = list(schema)[:-1]
    for field in _FIELDS[form]:
        if any(field.name == column.name for column in columns):
            raise InvalidError(
                f"column {field.name!r}",
                found="a column of the table",
                expected=f"no columns named {', '.join(names_of_form(form))}",
                action="Leave it out of the columns to be read, or rename it.",
            )
    return pa.schema([*columns, *_FIELDS[form]])


def in_form(
    batch: pa.RecordBatch, form: str, snapshot_id: int, time_millis: Callable[[int], int]
) -> pa.RecordBatch:
    """Put a batch of changes of one snapshot into a form.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The changes.
    form : str
        One of FORMS.
    snapshot_id : int
        The snapshot.
    time_millis : callable
        Snapshot id to its time, as `commit_times` returns it.

    Returns
    -------
    pyarrow.RecordBatch
        The changes with the columns of the form.
    """
    if form == KIND:
        return batch
    schema = schema_of_form(batch.schema, form)
    kinds = batch.column(batch.num_columns - 1)
    version, time = schema.field(-2), schema.field(-1)
    millis = pa.scalar(time_millis(snapshot_id), pa.timestamp("ms", "UTC"))
    added = [
        _standard_types(kinds) if form == STANDARD else kinds,
        pa.repeat(pa.scalar(snapshot_id, version.type), batch.num_rows),
        pa.repeat(millis.cast(time.type), batch.num_rows),
    ]
    return pa.RecordBatch.from_arrays([*batch.columns[:-1], *added], schema=schema)


def _standard_types(kinds: pa.Array) -> pa.Array:
    encoded = kinds.dictionary_encode()
    words = pa.array([_TYPES[kind] for kind in encoded.dictionary.to_pylist()], pa.string())
    return words.take(encoded.indices)


def commit_times(table: TableState) -> Callable[[int], int]:
    """Return a function that reads when snapshots were committed; each is read once.

    Parameters
    ----------
    table : TableState
        The table.

    Returns
    -------
    callable
        Snapshot id to epoch milliseconds.
    """
    store = SnapshotStore(table.file_io, table.paths)
    return cache(lambda snapshot_id: store.load(snapshot_id).time_millis)
