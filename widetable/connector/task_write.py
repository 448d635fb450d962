"""Writes the rows of one batch by many tasks: the driver plans, each task makes files, the driver commits messages.

    driver    plan_write(table, schema of the rows) ─► WritePlan, pickled to the tasks
    task      plan.task(number) ─► TaskWrite: write(batch) .. finish() ─► messages, pickled to the driver
    driver    BatchCommits.commit(messages, batch), or Table.commit_append

The plan fixes what all tasks of a batch must share: the base of the sequence numbers, and the schema in which names are
looked up. Make one for each batch, after the batch before is committed. Raises InvalidError and UnsupportedError for
rows that the table does not take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from widetable.arguments import refused
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_write import check_write_columns, new_writer, sequence_base
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.write.append.row_writer import RowWriter
from widetable.write.commit_message import CommitMessage
from widetable.write.named_columns import check_names_column


class TaskWrite(Protocol):
    """The writer of one task. Finish or abort it."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows.

        Parameters
        ----------
        rows : pyarrow.RecordBatch
            The rows; columns that the plan does not write are left out.

        Raises
        ------
        InvalidError
            A value does not fit its column, or rows have no key.
        """

    def finish(self) -> list[CommitMessage]:
        """Close the files.

        Returns
        -------
        list of CommitMessage
            What the commit needs; picklable.
        """

    def abort(self) -> None:
        """Delete the files that were written."""


@dataclass(frozen=True)
class _SelectedWrite:
    writer: RowWriter
    columns: tuple[str, ...]

    def write(self, rows: pa.RecordBatch) -> None:
        self.writer.write(rows.select(self.columns))

    def finish(self) -> list[CommitMessage]:
        return self.writer.finish()

    def abort(self) -> None:
        self.writer.abort()


@dataclass(frozen=True)
class WritePlan:
    """What the tasks of one batch share; picklable. `plan_write` makes it.

    Attributes
    ----------
    table : OpenTable
        The table.
    columns : tuple of str
        The columns that are written, row kinds among them where the rows have them.
    row_kind : str
        The name of the column of row kinds.
    named : bool
        Whether the commit names its writer.
    row_columns : str or None
        The column that names the columns of each row.
    sequence_base : int
        The base of the sequence numbers.
    schema_id : int
        The schema in which the columns are looked up.
    """

    table: OpenTable
    columns: tuple[str, ...]
    row_kind: str
    named: bool
    row_columns: str | None
    sequence_base: int
    schema_id: int

    def task(self, number: int) -> TaskWrite:
        """Make the writer of a task.

        Parameters
        ----------
        number : int
            The number of the task, from 0; a task that is retried keeps it.

        Returns
        -------
        TaskWrite
            The writer.

        Raises
        ------
        NotFoundError
            The schema of the plan has been removed.
        """
        writer = new_writer(
            self.table,
            self.columns,
            row_kind=self.row_kind,
            task=number,
            tasks=None,
            sequence_base=self.sequence_base,
            named=self.named,
            schema_id=self.schema_id,
            written_columns=self.row_columns,
        )
        names = () if self.row_columns is None else (self.row_columns,)
        return _SelectedWrite(writer, (*self.columns, *names))


def plan_write(
    table: OpenTable,
    rows: pa.Schema,
    columns: Sequence[str] | None = None,
    row_kind: str = ROW_KIND_COLUMN,
    *,
    named: bool = False,
    row_columns: str | None = None,
    owned: Sequence[str] | None = None,
) -> WritePlan:
    """Check, before any row is read, that rows may be written, and plan their tasks.

    Parameters
    ----------
    table : OpenTable
        The table.
    rows : pyarrow.Schema
        The columns of the rows.
    columns : list of str, default None
        The columns to write. None: all but `row_columns`.
    row_kind : str, default "_row_kind"
        The name of the column of row kinds, if the rows have one.
    named : bool, default False
        Whether the commit names its writer, as commits of tables under barriers do.
    row_columns : str, default None
        The column with lists of the columns that each row carries; a null list stands for all. None: each row carries
        all.
    owned : list of str, default None
        The columns besides the key that the writer may write. None: all.

    Returns
    -------
    WritePlan
        The plan.

    Raises
    ------
    InvalidError
        A column is unknown, missing or of another type, or the columns may not be written without others.
    UnsupportedError
        The table has an option that this version does not honour.
    """
    fields = dict(zip(rows.names, rows, strict=True))
    if row_columns is not None:
        kind = fields[row_columns].type if row_columns in fields else None
        check_names_column(table.schema, row_columns, kind)
    chosen = tuple(columns or (name for name in rows.names if name != row_columns))
    for name in chosen:
        if name not in fields:
            raise refused(name, "columns", f"columns of the rows: {', '.join(rows.names)}")
    written = pa.schema([fields[name] for name in chosen])
    check_write_columns(table, written, row_kind, named=named, columns=owned)
    base, schema_id = sequence_base(table), table.schema.id
    return WritePlan(table, chosen, row_kind, named, row_columns, base, schema_id)
