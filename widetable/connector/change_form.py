"""The columns that changes carry beside their row, by the name of a form (`read/commit_columns.py` has the rules).

    kind       _row_kind
    commit     _row_kind, _snapshot_id, _commit_time
    standard   _change_type, _commit_version, _commit_timestamp

Raises InvalidError for a table that has a column of such a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from widetable.read.change_read import StreamRead, change_schema
from widetable.read.commit_columns import (
    FORMS,
    commit_times,
    in_form,
    names_of_form,
    schema_of_form,
)
from widetable.schema.table_schema import TableSchema


@dataclass(frozen=True)
class ChangeForm:
    """A form of changes. `CHANGE_FORMS` has all of them by name.

    Attributes
    ----------
    name : str
        The name of the form.
    """

    name: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the form adds at the end."""
        return names_of_form(self.name)

    def schema(self, schema: TableSchema, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of changes.

        Parameters
        ----------
        schema : TableSchema
            The schema of the table.
        columns : list of str
            The columns of the rows.

        Returns
        -------
        pyarrow.Schema
            These columns, then those of the form.

        Raises
        ------
        InvalidError
            The table has a column of such a name.
        """
        return schema_of_form(change_schema(schema, columns), self.name)

    def batches(self, read: StreamRead) -> Iterator[pa.RecordBatch]:
        """Read changes in this form.

        Parameters
        ----------
        read : StreamRead
            What a task of a ChangeStream reads.

        Yields
        ------
        pyarrow.RecordBatch
            The changes, with the columns of the form.
        """
        times = commit_times(read.table)
        return (in_form(batch, self.name, read.snapshot_id, times) for batch in read.to_batches())


CHANGE_FORMS: Final[Mapping[str, ChangeForm]] = {name: ChangeForm(name) for name in FORMS}
