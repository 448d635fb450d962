"""Reading changes: the rows of a change split with their kinds, or the rows of a snapshot as inserts. Picklable.

Out: record batches of the columns asked for, in that order, and `_row_kind` (string: +I, -U, +U, -D) last; by key, rows
of one key as their files order them, or in the order of the records where the split says so. A column that a file has
not is null. Memory: a few batches per file of the split.
Raises InvalidError for a table that has a column of that name, NotFoundError when the snapshot has expired meanwhile,
and what opening data files raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from widetable.errors import InvalidError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.row_batch import column_or_nulls
from widetable.format.row_budget import BATCH_BYTES
from widetable.merge.sorted_merge import interleave_runs
from widetable.read.change_plan import ChangeSplit
from widetable.read.commit_columns import KIND_FIELD
from widetable.read.expired import files_of
from widetable.read.split import Split, SplitRead
from widetable.row_kind import inserts, to_texts
from widetable.schema import VALUE_KIND, TableSchema
from widetable.write.table_state import TableState
from widetable.write.write_batch import ROW_KIND_COLUMN


def change_schema(schema: TableSchema, columns: Sequence[str]) -> pa.Schema:
    """The columns, and the row kind last."""
    if ROW_KIND_COLUMN in columns:
        raise InvalidError(
            f"column {ROW_KIND_COLUMN!r}",
            found="a column of the table with the name that row kinds have",
            expected="columns of other names",
            action="Leave it out of the columns to be read, or rename it.",
        )
    return schema.arrow_schema(columns).append(KIND_FIELD)


@dataclass(frozen=True)
class StreamRead:
    """Reads one split: of changes, or of a snapshot's rows, each of which is an insert. Nothing is opened before
    `to_batches`.
    """

    table: TableState
    split: ChangeSplit | Split
    columns: tuple[str, ...]

    @property
    def snapshot_id(self) -> int:
        """Whose changes or rows they are."""
        return self.split.snapshot_id

    def to_batches(self, *, use_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """The changes. use_threads: decode on several cores."""
        schema, split = change_schema(self.table.schema, self.columns), self.split
        with files_of(self.table, split.snapshot_id, is_followed=True):
            if isinstance(split, ChangeSplit):
                for batch in self._in_order(split, use_threads=use_threads):
                    yield _shaped(batch, batch.column(VALUE_KIND), schema)
                return
            # A batch without columns would not keep its rows: the key comes along.
            columns = self.columns or self.table.schema.trimmed_primary_key
            for batch in SplitRead(self.table, split, columns).to_batches(use_threads=use_threads):
                yield _shaped(batch, inserts(batch.num_rows), schema)

    def _in_order(self, split: ChangeSplit, *, use_threads: bool) -> Iterator[pa.RecordBatch]:
        """Row batches, all files of the split interleaved by key.

        One file is in order already. Of several, those of a commit are ordered by
        `sequence.field`, which is read for that and goes again in `_shaped`; all share one
        budget of memory.
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
            yield from opened.batches(size, use_threads=use_threads)


def _shaped(rows: pa.RecordBatch, kinds: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    """schema: of `change_schema`."""
    columns = [column_or_nulls(rows, field) for field in list(schema)[:-1]]
    return pa.RecordBatch.from_arrays([*columns, to_texts(kinds)], schema=schema)
