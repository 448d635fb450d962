"""Which columns the files of an append table have, and which of them have bounds. Pure.

Files have all columns, or in a wide table those that rows carry. Readers of Parquet that push a filter into a file that
lacks its column fail, as pypaimon's Python engine does. Columns of nulls cost some 100 bytes each, so files have them
while they are few. In a table of thousands of columns they would outweigh the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from widetable.format.column_stats import MAX_UNKNOWN_COLUMNS
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.row_batch import in_schema_order
from widetable.format.written_facts import BOUNDED_COLUMNS
from widetable.schema.table_schema import file_column
from widetable.write.table_state import TableState


def file_columns(state: TableState, carried: Iterable[str]) -> Sequence[str]:
    """Return the columns of a new file, in table order. carried: those in which its rows may have values."""
    schema = state.schema
    if state.has_wide_files or len(schema.fields) <= MAX_UNKNOWN_COLUMNS:
        return schema.names
    return in_schema_order(schema, carried) or schema.names[:1]


def more_bounded_columns(state: TableState, files: Iterable[DataFileMeta]) -> Sequence[str]:
    """Return the columns besides the first ones that new files with the rows of these must bound: those by which all
    of them were sorted.
    """
    schema = state.schema
    if len(schema.fields) <= MAX_UNKNOWN_COLUMNS:
        return ()
    in_all: set[str] | None = None
    for file in files:
        of_file = state.schema_of(file.schema_id)
        names = set(file.value_stats_cols or ())
        bounded = {
            column.name
            for column in schema.fields[BOUNDED_COLUMNS:]
            if (stored := file_column(column, of_file)) is not None and stored.name in names
        }
        in_all = bounded if in_all is None else in_all & bounded
    # Other clients may bound thousands of columns.
    return in_schema_order(schema, in_all or ())[:BOUNDED_COLUMNS]
