"""Reads changes: the rows of a change split with their kinds, or the rows of a snapshot as inserts. Picklable.

Out: record batches of the requested columns, in that order, and `_row_kind` (string: +I, -U, +U, -D) last. Rows are
ordered by key, and rows of one key by their files, or by sequence if the split says so. A column that a file lacks is
null. Memory: a few batches per file of the split.
Raises InvalidError for a table with a column of that name, NotFoundError when the snapshot has expired meanwhile,
and what opening data files raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from widetable.errors import InvalidError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.projection import Projection
from widetable.format.row_budget import BATCH_BYTES, most_rows_of
from widetable.merge.sorted_merge import interleave_runs
from widetable.read.change_plan import ChangeSplit
from widetable.read.commit_columns import KIND_FIELD
from widetable.read.expired import files_of
from widetable.read.split import Split, SplitRead
from widetable.runtime.derived_value import once_per_object
from widetable.schema.row_kind import inserts, to_texts
from widetable.schema.table_schema import ROW_KIND_COLUMN, VALUE_KIND, TableSchema
from widetable.write.table_state import TableState


def change_schema(schema: TableSchema, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of changes.

    Parameters
    ----------
    schema : TableSchema
        The schema of the table.
    columns : list of str
        The columns.

    Returns
    -------
    pyarrow.Schema
        The columns in this order, then the row kind.
    """
    if ROW_KIND_COLUMN in columns:
        raise InvalidError(
            f"column {ROW_KIND_COLUMN!r}",
            found="a column of the table with the name of the row kind column",
            expected="columns with other names",
            action="Leave it out of the columns to be read, or rename it.",
        )
    return schema.arrow_schema(columns).append(KIND_FIELD)


@dataclass(frozen=True)
class StreamRead:
    """Reads one split of changes, or of a snapshot's rows as inserts. Nothing is opened before `to_batches`.

    Attributes
    ----------
    table : TableState
        The table.
    split : ChangeSplit or Split
        The files.
    columns : tuple of str
        The columns, in the order wanted.
    """

    table: TableState
    split: ChangeSplit | Split
    columns: tuple[str, ...]

    @property
    def snapshot_id(self) -> int:
        """The snapshot with the changes or rows."""
        return self.split.snapshot_id

    def to_batches(
        self, *, use_threads: bool = False, metadata: Mapping[str, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes.

        Parameters
        ----------
        use_threads : bool, default False
            Decode on several cores; for a reader that does not share them.
        metadata : mapping of str to str, default None
            The metadata of the batches. None: they have none.

        Yields
        ------
        pyarrow.RecordBatch
            The columns in their order, then `_row_kind`.
        """
        projection, split = _projection(self.table.schema, self.columns), self.split
        with files_of(self.table, split.snapshot_id, is_followed=True):
            if isinstance(split, ChangeSplit):
                for batch in self._in_order(split, use_threads=use_threads):
                    yield projection.of(_with_kinds(batch, batch.column(VALUE_KIND)), metadata)
                return
            # A batch without columns would lose its number of rows, so the key is read.
            schema = self.table.schema
            columns = self.columns or schema.trimmed_primary_key or schema.names[:1]
            for batch in SplitRead(self.table, split, columns).to_batches(use_threads=use_threads):
                yield projection.of(_with_kinds(batch, inserts(batch.num_rows)), metadata)

    def _in_order(self, split: ChangeSplit, *, use_threads: bool) -> Iterator[pa.RecordBatch]:
        """Return row batches with all files of the split interleaved by key.

        One file is already in order. Several files of a commit are ordered by `sequence.field`,
        which is read for that and removed by the projection. All files share one memory budget.
        """
        files, schema = split.files, self.table.schema
        is_cut = len(files) > 1
        columns = self.columns
        if is_cut and split.by_sequence:
            columns = tuple(dict.fromkeys(columns + schema.sequence_fields))
        size = BATCH_BYTES // len(files)
        runs = [self._rows(file, columns, size, use_threads=use_threads) for file in files]
        if not is_cut:
            return runs[0]
        return interleave_runs(
            runs, schema, columns, batch_bytes=BATCH_BYTES, by_sequence=split.by_sequence
        )

    def _rows(
        self, file: DataFileMeta, columns: tuple[str, ...], size: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        with self.table.opened(self.split.bucket, file, columns) as opened:
            most_rows = most_rows_of(len(self.columns))
            yield from opened.batches(size, use_threads=use_threads, most_rows=most_rows)


def _projection(schema: TableSchema, columns: tuple[str, ...]) -> Projection:
    whole = columns == schema.names
    return _whole_projection(schema) if whole else _new_projection(schema, columns)


@once_per_object
def _whole_projection(schema: TableSchema) -> Projection:
    return _new_projection(schema, schema.names)


def _new_projection(schema: TableSchema, columns: tuple[str, ...]) -> Projection:
    fields = [*map(schema.arrow_field, columns), KIND_FIELD]
    return Projection(change_schema(schema, columns), fields)


def _with_kinds(rows: pa.RecordBatch, kinds: pa.Array) -> pa.RecordBatch:
    return rows.append_column(KIND_FIELD, to_texts(kinds))
