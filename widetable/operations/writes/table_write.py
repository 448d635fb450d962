"""Write rows in one commit, by one writer or by the writers of many tasks.

    one process      write, overwrite            replay? ─► files ─► commit ─► compaction
    many tasks       sequence_base ─► new_writer per task ─► messages ─► commit_append, once (`table_commit`)

A replay is detected before files are written, and once more in the commit itself. Columns that the table does not have
are refused before a file is written.

Raises InvalidError for rows and columns that do not fit the table, UnsupportedError for a table that cannot be
written, ConflictError, DamagedError and StorageError of the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag, instance, items, names, text, whole_number
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.partition_buckets import places_of
from widetable.commit.transaction.table_head import HeadState
from widetable.errors import ConflictError, InvalidError, UnsupportedError
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import (
    append_messages,
    discard,
    finish_replayed,
    overwrite_by,
)
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.write.append.append_writer import AppendWriter
from widetable.write.append.row_writer import RowWriter
from widetable.write.commit_message import CommitMessage
from widetable.write.named_columns import NamedColumns, check_names_column
from widetable.write.owned_columns import callers_columns, owned_columns
from widetable.write.row_source import RowSource, row_source
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_writer import TableWriter
from widetable.write.write_batch import BatchNormalizer

# The largest number of tasks of one commit.
MAX_TASKS: Final = 2**31 - 1
# Threads that write the buckets of one call.
_THREADS: Final = 2


def write(
    table: OpenTable,
    data: Any,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    row_kind: str = ROW_KIND_COLUMN,
    *,
    digest: str | None = None,
    replay: bool = False,
    properties: Mapping[str, str] | None = None,
    watermark: int | None = None,
    written_columns: str | None = None,
) -> CommitResult:
    """Upsert rows in one commit.

    The data has the columns that the call updates, including the primary key. Without rows, properties and watermark
    nothing is committed. Buckets are compacted if due, unless the option `write-only` is set. A repeated identifier of
    a user commits nothing; they grow. The last is a repeat unless its digest differs, a lower one by digest or
    `replay`.

    Parameters
    ----------
    data : Arrow data, frame, dict, list of dicts or iterable
        Arrow tables, batches, readers and C streams (polars, DuckDB), converted only without loss; a pandas frame,
        without an unnamed index; a dict of columns; dicts, each of which writes its names; an iterable of Arrow data
        or frames. Floats of Python and numpy are rounded to FLOAT; NaN is null in columns of other types.
    commit_user : str, default None
        The name under which identifiers grow, at most 255 bytes. None: a new one for this call.
    commit_identifier : int, default None
        The number of this commit, from 0 to 2^63 - 2. None: the commit is never a repeat.
    row_kind : str, default "_row_kind"
        An optional column of +I, -U, +U and -D. Without it all rows are +I.
    digest, replay, properties, watermark
        As in `commit_append`.
    written_columns : str, default None
        A column of the data that lists the columns which each row writes, besides its key and kind; a null list: all.

    Returns
    -------
    CommitResult
        What was committed; `committed` is False when nothing was.

    Raises
    ------
    InvalidError
        A column, row, identifier or value does not fit, the key is missing, or there are more than 64 sets of columns.
    UnsupportedError
        The data has a form that is not supported, or the table an option that this version does not honour.
    ConflictError
        Other commits were faster until `commit.timeout`, or committed new keys first (dynamic buckets).

    Examples
    --------
    >>> users.write([{"id": 3, "city": "Oslo"}], "import", 7).committed
    True
    """
    by = Identity.of(commit_user, commit_identifier, digest, replay)
    commit = partial(append_messages, table, by=by, properties=properties, watermark=watermark)
    return write_by(table, COMMIT_KIND_APPEND, data, by, row_kind, commit, written_columns)


def overwrite(
    table: OpenTable,
    data: Any,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    row_kind: str = ROW_KIND_COLUMN,
    *,
    whole_table: bool = False,
    digest: str | None = None,
    replay: bool = False,
    written_columns: str | None = None,
) -> CommitResult:
    """Replace rows by other rows in one commit.

    It removes the rows of the partitions that the data has. It removes all rows with `whole_table`, in a table without
    partitions, or with option `dynamic-partition-overwrite` = false; without new rows the table is empty afterwards.
    In other cases a table with partitions does not change without new rows. Readers of changes do not see the removed
    rows. With the changelog producer `lookup` they get all new rows as +I, so restart them from a new scan. All else
    is as in `write`.

    Parameters
    ----------
    data, commit_user, commit_identifier, row_kind
        As in `write`.
    whole_table : bool, default False
        Replace the rows of all partitions, not only of those that the data has.
    digest, replay, written_columns
        As in `write`.

    Returns
    -------
    CommitResult
        What was committed; `committed` is False when nothing was.

    Raises
    ------
    InvalidError
        A column or value does not fit the table, or an identifier is not the repeated commit, as in `write`.
    UnsupportedError
        The table is under barriers, the data has a form that is not supported, or the table an option that
        this version does not honour.
    ConflictError
        Other commits were faster until `commit.timeout`, or more than `commit.max-retries` times.

    Examples
    --------
    >>> users.overwrite([{"id": 9, "city": "Bodø"}]).kind
    'OVERWRITE'
    >>> users.scan().to_arrow().to_pylist()
    [{'id': 9, 'city': 'Bodø'}]
    """
    by = Identity.of(commit_user, commit_identifier, digest, replay)
    commit = partial(overwrite_by, table, by=by, whole_table=flag(whole_table, "whole_table"))
    return write_by(table, COMMIT_KIND_OVERWRITE, data, by, row_kind, commit, written_columns)


def write_by(
    table: OpenTable,
    kind: str,
    data: Any,
    by: Identity,
    row_kind: str,
    commit: Callable[[list[CommitMessage]], CommitResult],
    written_columns: str | None = None,
    columns: Callable[[TableSchema], frozenset[str]] | None = None,
) -> CommitResult:
    """Write the files of one commit, and commit them. Files that are certainly not committed are deleted.

    commit: commits the messages under `by`. columns: returns the columns of a writer of a table under barriers, by its
    schema; None for other writers, which own all. written_columns: as in `write`. The checks, the search for a replay
    and the sequence numbers share one read of the newest snapshot and schema. Rows get the types of that schema,
    even if the schema changes meanwhile.
    """
    row_kind = text(row_kind, "row_kind")
    head = table._committer.refresh()
    accept(head.schema, Use.TAKE_ROWS)
    if kind == COMMIT_KIND_OVERWRITE:
        accept(head.schema, Use.REPLACE, path=table.path)
    elif columns is None:
        accept(head.schema, Use.TAKE_UNNAMED_ROWS, path=table.path)
    replayed = table._committer.replay_of(by, head)
    if replayed is not None:
        finish_replayed(table, head.schema)
        return CommitResult(committed=False, snapshot_id=replayed.snapshot_id, kind=kind)
    owned = callers_columns(head.schema, columns and columns(head.schema))
    source = row_source(data, head.schema)
    messages = _written(table, source, row_kind, head, owned, written_columns)
    try:
        result = commit(messages)
    # After these errors the commit certainly did not happen; other errors leave it open.
    except (ConflictError, InvalidError, UnsupportedError):
        discard(table, messages)
        raise
    if not result.committed:
        # Another commit of this identifier was faster.
        discard(table, messages)
    return result


def _written(
    table: OpenTable,
    source: RowSource,
    row_kind: str,
    head: HeadState,
    owned: frozenset[str],
    written_columns: str | None,
) -> list[CommitMessage]:
    """Write the files of the rows; none without rows. If the writer fails, it removes its files itself."""
    if source.columns is None:
        return []
    columns = items(source.columns, str, "columns")
    if written_columns is not None and text(written_columns, "written_columns") not in columns:
        check_names_column(head.schema, written_columns, None)
    writer = any_writer(
        table,
        columns,
        row_kind,
        head=head,
        owned=owned,
        written_columns=written_columns,
        threads=_THREADS,
    )
    with writer:
        return writer.write_source(source)


def new_writer(
    table: OpenTable,
    columns: Sequence[str],
    row_kind: str = ROW_KIND_COLUMN,
    task: int = 0,
    tasks: int | None = 1,
    sequence_base: int | None = None,
    *,
    named: bool = False,
    schema_id: int | None = None,
    written_columns: str | None = None,
) -> RowWriter:
    """Make a writer of level-0 files, for one task of a commit.

    Pass its messages to `commit_append` or `commit_overwrite`. The tasks of one commit share a sequence
    base, and `task` and `tasks` separate their numbers, so no two rows of the commit get the same one. The caller
    closes the writer: by `with`, or by `finish` or `abort`.

    Parameters
    ----------
    columns : list of str
        The columns of the data that the writer will receive.
    row_kind : str, default "_row_kind"
        The name of the column of row kinds, as in `write`.
    task : int, default 0
        The number of this task, from 0.
    tasks : int, default 1
        How many tasks there are. None: unknown.
    sequence_base : int, default None
        The result of `sequence_base()`, called once for all tasks. None: the writer calls it now.
    named : bool, default False
        The messages go to a commit that names its writer, as those of jobs do.
    schema_id : int, default None
        The schema in which `columns` are looked up. Tasks of one commit share it, so that a name means the same
        column in all of them, even if two columns swap their names meanwhile. None: the newest.
    written_columns : str, default None
        The column of the data that lists the columns which each row writes, as in `write`.

    Returns
    -------
    TableWriter
        The open writer.

    Raises
    ------
    InvalidError
        A column is not in the table or not for writers, `task` is not below `tasks`, or `named` is missing.
    NotFoundError
        There is no schema of that id.
    UnsupportedError
        The table has an option that this version does not honour.
    """
    columns = items(columns, str, "columns")
    schema = table.schema if schema_id is None else _schema_of(table, schema_id)
    accept(schema, Use.TAKE_ROWS)
    if not flag(named, "named"):
        accept(schema, Use.TAKE_UNNAMED_ROWS, path=table.path)
    owned = callers_columns(schema)
    numbers = task, tasks, sequence_base
    return any_writer(table, columns, row_kind, *numbers, None, schema, owned, written_columns)


def _schema_of(table: OpenTable, schema_id: int) -> TableSchema:
    return table._committer.schemas.load(whole_number(schema_id, "schema_id", least=0))


def any_writer(
    table: OpenTable,
    columns: Sequence[str],
    row_kind: str = ROW_KIND_COLUMN,
    task: int = 0,
    tasks: int | None = 1,
    sequence_base: int | None = None,
    head: HeadState | None = None,
    schema: TableSchema | None = None,
    owned: frozenset[str] | None = None,
    written_columns: str | None = None,
    threads: int = 1,
) -> RowWriter:
    """Make a writer as `new_writer` does, also for columns and tables that this package maintains.

    head: the snapshot and schema that this operation has read; its schema is used. owned: as of `owned_columns`.
    threads: as of `TableWriter`; a task of an engine that runs elsewhere has one.
    """
    schema = head.schema if head else schema or table.schema
    accept(schema, Use.WRITE)
    row_kind = text(row_kind, "row_kind")
    if written_columns is not None:
        written_columns = text(written_columns, "written_columns")
    if tasks is not None:
        tasks = whole_number(tasks, "tasks", least=1, most=MAX_TASKS)
    task = whole_number(task, "task", least=0, most=(tasks or MAX_TASKS) - 1)
    base = table._committer.sequence_base(head) if sequence_base is None else sequence_base
    base = whole_number(base, "sequence_base", least=0)
    if tasks != 1:
        accept(schema, Use.WRITE_IN_TASKS)
    columns = [name for name in columns if name != written_columns]
    if written_columns in schema.by_name:
        check_names_column(schema, written_columns, None)
    chosen = owned_columns(schema, columns, row_kind, owned)
    named = None if written_columns is None else NamedColumns(schema, columns, written_columns)
    numbers = SequenceAllocator(base, task, tasks)
    state, committer = table._state(schema), table._committer
    if not schema.has_key:
        return AppendWriter(state, chosen, numbers, named, threads)
    if schema.postpones_buckets:
        return TableWriter(state, chosen, numbers, None, named, threads)
    places = places_of(
        state,
        committer.live_files,
        committer.indexes.hashes,
        committer.snapshots.latest,
        committer.schemas.is_rescaled,
    )
    return TableWriter(state, chosen, numbers, places, named, threads)


def check_write_columns(
    table: OpenTable,
    arrow_schema: pa.Schema,
    row_kind: str = ROW_KIND_COLUMN,
    *,
    named: bool = False,
    columns: Sequence[str] | None = None,
) -> None:
    """Raise what `write` would raise for data of a schema, before there is any data.

    Parameters
    ----------
    arrow_schema : pyarrow.Schema
        The columns and types of the data.
    row_kind : str, default "_row_kind"
        The name of the column of row kinds, as in `write`.
    named : bool, default False
        The data goes to a commit that names its writer, as in `new_writer`.
    columns : list of str, default None
        The columns besides the key that the writer writes. None: all.

    Raises
    ------
    InvalidError
        A column is not in the table or not the writer's, or has another type, or a key column is missing. The table is
        under barriers, and `named` is not given.
    UnsupportedError
        The table has an option that this version does not honour.
    """
    schema = table.schema
    accept(schema, Use.TAKE_ROWS)
    if not flag(named, "named"):
        accept(schema, Use.TAKE_UNNAMED_ROWS, path=table.path)
    accept(schema, Use.WRITE)
    given = instance(arrow_schema, pa.Schema, "arrow_schema").names
    owned = callers_columns(schema, columns if columns is None else names(columns, "columns"))
    chosen = owned_columns(schema, given, text(row_kind, "row_kind"), owned)
    empty = pa.RecordBatch.from_arrays(
        [pa.nulls(0, field.type) for field in arrow_schema], schema=arrow_schema
    )
    BatchNormalizer(schema, chosen, SequenceAllocator(0)).row_batch(empty)


def sequence_base(table: OpenTable) -> int:
    """Get the number after which the sequence numbers of a commit begin that starts now.

    All tasks of the commit use the same number: pass it to `new_writer`.

    Returns
    -------
    int
        The sequence base.

    Raises
    ------
    NotFoundError
        The table was dropped.
    """
    return table._committer.sequence_base()
