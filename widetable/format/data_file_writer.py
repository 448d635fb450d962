"""Write one Parquet data file from row batches, and return its DataFileMeta. Rows with a key are sorted by it.

On disk: never change (Paimon `KeyValueDataFileWriter`, `ParquetSchemaConverter`; format.md section 7):

    columns   = [_KEY_<trimmed key>..] _SEQUENCE_NUMBER _VALUE_KIND <table columns in schema order>
                append table: <table columns in schema order>, rows in the order of writing
    id        = the column's id; _KEY_c: 1073741823 + id of c; _SEQUENCE_NUMBER 2147483646; _VALUE_KIND 2147483645;
                at depth d (from 1) of column or field i: element and map value 536870911 + 1024 i + d,
                map key 536870911 - 1024 i - d
    required  = NOT NULL columns; rows ascend strictly by the trimmed key, those of a changelog file may repeat it

A narrow file leaves columns out; NOT NULL columns are always present. Decimals up to 18 digits are integers, timestamps
milli- or microseconds by their digits, from 7 digits on int96 (`int96`). A row group is filled up to `row_group_bytes`
of Arrow memory or ROW_GROUP_ROWS rows, so that a reader of one key range needs little memory. The footer records that
size, and is sealed (`footer_seal`).
Raises InvalidError for rows that break the rules above, StorageError when the storage refuses.

The steps of writing, and their memory:

    write      conform, check the order, collect facts for the meta; keep the batch as pending
    _flush     write pending rows as one row group; until then they take about `row_group_bytes` of Arrow memory
    close      write the last row group, footer with notes, seal; close, sync; the indexes; only then return the meta

Nothing is on disk before the first row group, so a writer that gets no row leaves no file. A
process that dies before the commit leaves a file that no snapshot names; the cleaning of orphans
removes it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from widetable.errors import InvalidError, StorageError
from widetable.format.arrow_version import LATER_OPTIONS, check_times
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.file_index.index_builder import FileIndexBuilder
from widetable.format.file_index.index_container import INDEX_SUFFIX
from widetable.format.footer_seal import UNSEALED, sealed
from widetable.format.int96 import marked_tail, stored_column, stored_field
from widetable.format.parquet_layout import (
    GROUP_BYTES,
    MAX_COLUMN_CHUNKS,
    PAGE_BYTES,
    ROW_GROUP_ROWS,
    dictionary_columns,
    file_schema,
    row_group_bytes,
    statistics_columns,
)
from widetable.format.row_batch import column_or_nulls, in_schema_order, row_batch_schema
from widetable.format.row_budget import row_bytes, rows_within
from widetable.format.tail_buffer import TailBuffer
from widetable.format.written_facts import AppendedFacts, KeyedFacts, WrittenFacts
from widetable.kernels.hidden_nulls import without_hidden_nulls
from widetable.messages.counted import counted
from widetable.runtime.machine_clock import now_millis
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.leftover import delete_leftover


class DataFileWriter:
    """Writes one file; call either `close` or `abort` at the end.

    columns: table columns to write; NOT NULL ones are added. key_columns: also write `_KEY_` columns, for readers
    before Paimon 1.0. repeated_keys: a key may come in several rows, as in changelog files. bounded: columns of an
    append table whose bounds are recorded in any case. indexed: make the file indexes that the schema names. codec: by
    default that of data files. page_bytes: of a page before it is compressed. The file appears at `path` while it is
    written; no snapshot names it before it is committed.

    States: nothing written (`_out` is None), open, closed. After an error only `abort` may
    follow. Not thread-safe. Memory: one row group, and Arrow's memory to encode it.
    """

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        schema: TableSchema,
        columns: Sequence[str],
        options: TableOptions,
        *,
        key_columns: bool = False,
        repeated_keys: bool = False,
        bounded: Sequence[str] = (),
        indexed: bool = True,
        codec: str | None = None,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self._page_bytes = page_bytes
        self._codec = codec or options.get(opt.FILE_COMPRESSION)
        self._file_io = file_io
        self._path = path
        self._schema = schema
        self._options = options
        self._key_columns = key_columns
        names = in_schema_order(schema, [*columns, *schema.required_names])
        self._batch_schema = row_batch_schema(schema, names)
        self._repeats_key = key_columns and schema.has_key
        self._file_schema = file_schema(schema, names, key_columns=self._repeats_key)
        budget_bytes = options.get(opt.WRITE_BUFFER_SIZE)
        self._full_group_bytes = row_group_bytes(len(self._file_schema), budget_bytes)
        self._groups = 0
        self._key = schema.trimmed_primary_key
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._written_arrow_bytes = 0
        self._group_bytes = 0
        self._out: pa.NativeFile | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._tail: TailBuffer | None = None
        self._has_int96 = False
        self._footers: list[pq.FileMetaData] = []
        self._index = FileIndexBuilder(schema, names if indexed else ())
        self._index_path = f"{path}{INDEX_SUFFIX}"
        self._has_index_file = False
        self._facts: WrittenFacts = (
            KeyedFacts(schema, repeated_keys=repeated_keys)
            if schema.has_key
            else AppendedFacts(schema, bounded)
        )

    @property
    def size_bytes(self) -> int:
        """The estimated size of the file now: written bytes, and pending bytes at the compression ratio so far.

        Before the first row group the ratio is unknown, so rows count with their size in memory:
        the first file of a writer is estimated too large rather than too small.
        """
        written = self._out.tell() if self._out is not None else 0
        ratio = written / self._written_arrow_bytes if self._written_arrow_bytes else 1.0
        return written + int(self._pending_bytes * ratio)

    @property
    def is_full(self) -> bool:
        """Whether another row group would make too many column chunks."""
        return (self._groups + 1) * len(self._file_schema) > MAX_COLUMN_CHUNKS

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._facts.rows

    def write(self, row_batch: pa.RecordBatch) -> None:
        """Add rows whose keys come after all earlier ones. A chosen column that the batch lacks is null.

        The batch is kept, not copied, until its row group is written, and so is its memory.
        Raises InvalidError for a column of another type, for nulls in a NOT NULL column
        and for keys out of order; no row of such a batch is pending then.
        """
        if not row_batch.num_rows:
            return
        batch = self.conformed(row_batch)
        self._facts.add(batch, self._path)
        self._index.add(batch)
        # Pieces no larger than a row group, so that neither memory nor groups grow with the batch.
        bytes_per_row = row_bytes(batch)
        group_rows = rows_within(self._full_group_bytes, bytes_per_row, ROW_GROUP_ROWS)
        start = 0
        while start < batch.num_rows:
            # The room left in the group, so that groups are full wherever batches end.
            left_bytes = self._full_group_bytes - self._pending_bytes
            left_rows = max(group_rows - self._pending_rows, 1)
            rows = rows_within(left_bytes, bytes_per_row, left_rows)
            piece = batch.slice(start, rows)
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += int(bytes_per_row * piece.num_rows)
            start += piece.num_rows
            if self._pending_rows >= group_rows or self._pending_bytes >= self._full_group_bytes:
                self._flush()

    def close(self, level: int, file_source: int) -> DataFileMeta:
        """Finish the file, sync it to the storage, and return its meta. Needs at least one row.

        The order matters: the footer is complete before the storage is synced, and the meta is
        returned only after that. Whoever has the meta may commit it; nobody else knows the name.
        level, file_source: for the meta only, they are not in the file. Raises StorageError.
        """
        if not self._facts.rows:
            raise InvalidError(
                self._path, found="no row", expected="one row at least", action="Abort the writer."
            )
        self._flush()
        assert self._out is not None
        assert self._parquet is not None
        with _mapped_errors(self._path):
            self._end_parquet(self._parquet, self._out)
            file_size = self._out.tell()
            self._out.close()
        self._file_io.sync(self._path)
        facts = self._facts.meta(self._footers[-1], old_readers=self._key_columns)
        extra_files, embedded = self._write_index()
        return DataFileMeta(
            file_name=self._path.rpartition("/")[2],
            file_size=file_size,
            row_count=self._facts.rows,
            min_key=facts.min_key,
            max_key=facts.max_key,
            key_stats=facts.key_stats,
            value_stats=facts.value_stats,
            min_sequence_number=facts.min_sequence_number,
            max_sequence_number=facts.max_sequence_number,
            schema_id=self._schema.id,
            level=level,
            extra_files=extra_files,
            embedded_index=embedded,
            creation_time_millis=_local_wall_clock_millis(),
            delete_row_count=facts.delete_rows,
            file_source=file_source,
            value_stats_cols=facts.value_stats_columns,
        )

    def abort(self) -> None:
        """Delete the file. May be called after `close`, and more than once."""
        self._pending.clear()
        if self._out is None:
            return
        # The Parquet writer must not write its footer, because the file is deleted; an error may keep the writer alive.
        if self._parquet is not None:
            self._parquet.is_open = False
        self._parquet = None
        with contextlib.suppress(OSError):
            self._out.close()
        delete_leftover(self._file_io, self._path)
        if self._has_index_file:
            delete_leftover(self._file_io, self._index_path)

    def conformed(self, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with exactly the file's table columns.

        A column that only the file has is null; columns that only the batch has are left out.
        Raises InvalidError like `write`.
        """
        if row_batch.schema.equals(self._batch_schema) and not any(
            row_batch.column(name).null_count for name in self._schema.required_names
        ):
            return row_batch
        columns = []
        for field in self._batch_schema:
            column = column_or_nulls(row_batch, field)
            if column.type != field.type:
                raise _wrong_rows(
                    self._path, field.name, f"values of {column.type}", f"{field.type}"
                )
            if not field.nullable and column.null_count:
                raise _wrong_rows(
                    self._path, field.name, counted(column.null_count, "null"), "NOT NULL values"
                )
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self._batch_schema)

    def _write_index(self) -> tuple[tuple[str, ...], bytes | None]:
        """Write the indexes beside the file if they are large. Return the names of extra files, and the indexes that
        the manifest has instead.
        """
        data = self._index.build()
        if data is None or len(data) <= self._options.get(opt.FILE_INDEX_IN_MANIFEST):
            return (), data
        self._has_index_file = True
        self._file_io.write_new(self._index_path, data)
        return (self._index_path.rpartition("/")[2],), None

    def _end_parquet(self, parquet: pq.ParquetWriter, out: pa.NativeFile) -> None:
        """Write Arrow's footer with our additions."""
        assert self._tail is not None
        # Arrow must write UNSEALED, and marking must come before sealing: the checksum is that of
        # the footer on disk.
        parquet.add_key_value_metadata({GROUP_BYTES: str(self._group_bytes), **UNSEALED})
        self._tail.hold()
        parquet.close()
        tail = self._tail.tail
        out.write(sealed(marked_tail(tail) if self._has_int96 else tail))

    def _flush(self) -> None:
        if not self._pending:
            return
        group = pa.Table.from_batches(self._pending, self._batch_schema)
        # Arrow's cast refuses nulls below nulls where the type is NOT NULL.
        shown = [without_hidden_nulls(column) for column in group.columns]
        group = pa.Table.from_arrays(shown, schema=self._batch_schema)
        # The file is opened late, because the first row group decides which columns get a dictionary.
        parquet = self._parquet or self._open(group)
        if self._repeats_key:
            keys = [group.column(name) for name in self._key]
            group = pa.Table.from_arrays([*keys, *group.columns], schema=self._file_schema)
        else:
            group = group.select(self._file_schema.names).cast(self._file_schema)
        if self._has_int96:
            columns = [stored_column(column) for column in group.columns]
            group = pa.Table.from_arrays(columns, schema=parquet.schema)
        with _mapped_errors(self._path):
            parquet.write_table(group, row_group_size=group.num_rows)
        self._groups += 1
        self._written_arrow_bytes += self._pending_bytes
        self._group_bytes = max(self._group_bytes, self._pending_bytes)
        self._pending.clear()
        self._pending_rows = self._pending_bytes = 0

    def _open(self, first_group: pa.Table) -> pq.ParquetWriter:
        codec = self._codec
        level = self._options.get(opt.FILE_COMPRESSION_ZSTD_LEVEL) if codec == "zstd" else None
        check_times(self._file_schema)
        self._out = self._file_io.open_output(self._path)
        schema = pa.schema([stored_field(field) for field in self._file_schema])
        self._has_int96 = schema != self._file_schema
        self._tail = TailBuffer(self._out)
        with _mapped_errors(self._path):
            self._parquet = pq.ParquetWriter(
                pa.PythonFile(self._tail, "w"),
                schema,
                compression=codec,
                compression_level=level,
                use_dictionary=dictionary_columns(first_group) or False,
                write_statistics=statistics_columns(schema, self._facts.bounded),
                write_page_checksum=True,
                data_page_size=self._page_bytes,
                **LATER_OPTIONS,
                store_decimal_as_integer=True,
                store_schema=False,
                metadata_collector=self._footers,
            )
        return self._parquet


def _wrong_rows(path: str, column: str, finding: str, expected: str) -> InvalidError:
    return InvalidError(
        f"column {column!r} of {path}", found=finding, expected=expected, action="Correct the rows."
    )


def _local_wall_clock_millis() -> int:
    """Return local time read as if it were UTC, as Paimon does for `_CREATION_TIME`."""
    millis = now_millis()
    return millis + time.localtime(millis // 1000).tm_gmtoff * 1000


@contextlib.contextmanager
def _mapped_errors(path: str) -> Iterator[None]:
    """Map OSError to StorageError. Arrow's other errors pass: they are about values, not about the storage."""
    try:
        yield
    except OSError as cause:
        raise StorageError(
            path,
            found=str(cause),
            expected="a storage that takes the bytes",
            action="Make room or mend the storage, then retry; nothing was committed.",
        ) from cause
