"""Read one data file as row batches of the current table schema. The extension of its name determines the format.

Source: Paimon `KeyValueFileReaderFactory`, `FormatReaderMapping`; format.md sections 2 and 7. A table column is matched
by id in the file's schema, and by that schema's name in the file; a missing nullable column is left out of
the batches (absent = null). `_KEY_` columns are never read: keys come from the table columns. A partition column that
is not in the file has the value of the file's partition in every row: tables that other tools converted from Hive
tables have files without partition columns.
Rows are read in batches, never the whole file, and only the requested columns (stored_file.py; one module per format).
Raises DamagedError where the file contradicts its meta and schema, UnsupportedError for formats and type changes
that this version does not read, NotFoundError when the file does not exist, StorageError when the storage refuses.

The steps from a file to row batches, and their checks:

    open     size against the meta; seal, footer, names (stored_file); each wanted column's cast;
             deleted rows, all below the file's row count
    batches  StoredFile's columns -> casts -> deleted rows left out -> nulls of NOT NULL columns, row
             kinds -> at the end of each group: its number of rows

Counts include deleted rows, so these are left out last. Errors of the formats are mapped
around each step (`decoding_errors`), not around the caller's work between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError, UnsupportedError
from widetable.format.avro_data_file import AvroDataFile
from widetable.format.binary_row import decode_row
from widetable.format.column_cast import Step, cast_to, column_cast, null_before
from widetable.format.damaged_file import damaged_file
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.decoding_errors import mapped_errors
from widetable.format.deletion_vector import RowNumbers, deleted_rows
from widetable.format.footer_seal import Seal
from widetable.format.key_range import KeyRange
from widetable.format.orc.orc_data_file import OrcDataFile
from widetable.format.parquet_data_file import ParquetDataFile
from widetable.format.plain_value import plain_column
from widetable.format.row_batch import SYSTEM_FIELDS, in_schema_order, row_batch_schema
from widetable.format.row_budget import BATCH_BYTES, MAX_ROWS, RowBudget
from widetable.format.stored_file import FileToOpen, StoredFile
from widetable.messages.counted import counted
from widetable.schema.row_kind import DELETE, INSERT
from widetable.schema.table_schema import VALUE_KIND, TableSchema, file_column
from widetable.schema.types import DataField
from widetable.storage.kept_inputs import Inputs

# By the extension of the file's name: a table may have files of several formats.
_OPENERS: Final[Mapping[str, Callable[[FileToOpen], StoredFile]]] = {
    "parquet": ParquetDataFile,
    "orc": OrcDataFile,
    "avro": AvroDataFile,
}


@dataclass(frozen=True)
class _Column:
    """A column of the batches, its name in the file, and the cast of its values. file_name: None for a
    column that is not read; all its rows have `value`. was_nullable: in the file's schema.
    """

    name: str
    nullable: bool
    file_name: str | None
    cast: Step | None
    was_nullable: bool = False
    value: pa.Scalar | None = None


class DataFile:
    """An open data file; `open_data_file` makes it. It is not thread-safe. Close it, or use `with`.

    columns: the table columns of its batches, in table order: those of the file and of the partition. schema:
    of the batches, with the system columns. Batches stay valid after `close`; iterators do not.
    """

    def __init__(
        self,
        file: FileToOpen,
        stored: StoredFile,
        schema: TableSchema,
        columns: Sequence[_Column],
        deleted: RowNumbers,
    ) -> None:
        self._deleted = deleted
        self._path = file.path
        self._file = file
        self._stored = stored
        self._table_schema = schema
        self._columns = tuple(columns)
        names = tuple(c.file_name for c in columns if c.file_name is not None)
        # A batch without columns has no rows, so at least one column is read.
        self._names: Final = names or (stored.schema.names[0],)
        of_table = columns[len(SYSTEM_FIELDS) :]
        self.columns: Final = tuple(c.name for c in of_table)
        self.columns_of_partition: Final = tuple(c.name for c in of_table if c.file_name is None)
        self.schema: Final = row_batch_schema(schema, self.columns)

    @property
    def seal(self) -> Seal:
        """The state of the file's footer."""
        return self._stored.seal

    def batches(
        self,
        batch_bytes: int = BATCH_BYTES,
        row_groups: Sequence[int] | None = None,
        *,
        use_threads: bool = False,
        most_rows: int = MAX_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield row batches of about `batch_bytes` in memory (row_budget), in file order, without deleted rows.
        row_groups: indices, in order; None for all. most_rows: of a batch, however narrow they are.
        """
        if self._file.source.closed:
            raise InvalidError(
                self._path, found="a closed file", expected="an open one", action="Open it again."
            )
        group_rows = self.row_group_rows
        budget = RowBudget(batch_bytes, most_rows, most_rows)
        starts = np.cumsum([0, *group_rows]).tolist()
        groups = range(len(group_rows)) if row_groups is None else row_groups
        with mapped_errors(self._path):
            self._stored.expect(groups, self._names)
        for group in groups:
            at, end = starts[group], starts[group + 1]
            stored_batches = self._stored.batches(
                group, self._names, budget, use_threads=use_threads
            )
            while True:
                with mapped_errors(self._path):
                    batch = next(stored_batches, None)
                    if batch is None:
                        break
                    row_batch = self._row_batch(batch, at)
                at += batch.num_rows
                budget.saw(row_batch)
                yield row_batch
            if at != end:  # Arrow treats an unknown page as the end
                raise damaged_file(
                    self._path, f"{at - end:+} rows in row group {group}", "those it counts"
                )

    def _without_deleted(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """Return the batch without deleted rows."""
        low, high = np.searchsorted(self._deleted, [at, at + batch.num_rows])
        if low == high:
            return batch
        counts = np.ones(batch.num_rows, np.bool_)
        counts[self._deleted[low:high] - at] = False
        return batch.filter(pa.array(counts))

    def narrowed(self, columns: Collection[str]) -> DataFile:
        """Return this open file with the key and, of its other columns, only these. Closing one closes both."""
        kept = {*self._table_schema.trimmed_primary_key, *columns}
        chosen = [
            column
            for index, column in enumerate(self._columns)
            if index < len(SYSTEM_FIELDS) or column.name in kept
        ]
        return DataFile(self._file, self._stored, self._table_schema, chosen, self._deleted)

    @property
    def stored_columns(self) -> int:
        """How many columns the file has, including system columns and those that were not requested."""
        return len(self._stored.schema)

    @property
    def deleted_rows(self) -> int:
        """How many rows are deleted."""
        return len(self._deleted)

    @property
    def row_group_rows(self) -> list[int]:
        """How many rows each row group has, including deleted ones, in file order."""
        with mapped_errors(self._path):
            return list(self._stored.group_rows)

    @property
    def row_group_live_rows(self) -> list[int]:
        """How many rows each row group has, without deleted ones, in file order."""
        ends = np.cumsum([0, *self.row_group_rows])
        live: list[int] = np.diff(ends - np.searchsorted(self._deleted, ends)).tolist()
        return live

    def row_group_key_ranges(self) -> list[KeyRange]:
        """Return the number of rows and the bounds of the keys of each row group, in file order."""
        schema = self._table_schema
        return self.row_group_ranges([schema.field(name) for name in schema.trimmed_primary_key])

    def row_group_ranges(self, columns: Sequence[DataField]) -> list[KeyRange]:
        """Return the same for any columns of an append table; in other tables only the key is bounded."""
        with mapped_errors(self._path):
            return self._stored.key_ranges(columns)

    def close(self) -> None:
        """Close the file; batches that were returned stay valid."""
        self._stored.close()
        self._file.source.close()

    def __enter__(self) -> DataFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _row_batch(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """Convert the file's columns to a row batch: casts, then checks of the rows that are not deleted.

        at: the position of the first row in the file.
        """
        arrays = []
        for column in self._columns:
            if column.file_name is None:
                arrays.append(pa.repeat(column.value, batch.num_rows))
            else:
                array = batch.column(column.file_name)
                arrays.append(array if column.cast is None else column.cast(array))
        left = self._without_deleted(pa.RecordBatch.from_arrays(arrays, schema=self.schema), at)
        for column, array in zip(self._columns, left.columns, strict=True):
            if array.null_count and not column.nullable:
                subject = f"column {column.name!r} of {self._path}"
                finding = f"{counted(array.null_count, 'null')} in {counted(len(array), 'row')}"
                if column.was_nullable:
                    raise null_before(subject, finding)
                raise damaged_file(subject, finding, "a value in every row")
        kinds = pc.min_max(left.column(1)).as_py()
        if left.num_rows and not INSERT <= kinds["min"] <= kinds["max"] <= DELETE:
            raise damaged_file(
                f"column {VALUE_KIND!r} of {self._path}",
                f"row kinds from {kinds['min']} to {kinds['max']}",
                f"row kinds from {INSERT} to {DELETE}",
            )
        return left


def open_data_file(
    inputs: Inputs,
    path: str,
    meta: DataFileMeta,
    table_schema: TableSchema,
    file_schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    partition: bytes | None = None,
) -> DataFile:
    """Open a file and decide how its columns are converted to the table's; this reads the footer only.

    file_schema: the schema that `meta.schema_id` names. columns: requested table columns, None for all; the key columns
    are added. partition: of the file's manifest entry, for partition columns that the file lacks; None:
    such columns are absent, like others.

    The size is compared before anything is parsed, so that a truncated or overwritten file is reported
    as such, and not as wrong bytes. When this raises, it closes the source; afterwards the DataFile
    owns the source. Raises InvalidError for a file_schema that is not the file's, and the errors in
    the module text.
    """
    if meta.schema_id != file_schema.id:
        raise InvalidError(
            path,
            found=f"schema {file_schema.id}",
            expected=f"schema {meta.schema_id}, which the file's meta names",
            action="Load that schema.",
        )
    kind = meta.file_name.rpartition(".")[2]
    opener = _OPENERS.get(kind)
    if opener is None:
        raise UnsupportedError(
            path,
            found=f"a file of the format {kind!r}",
            expected=f"one of {', '.join(_OPENERS)}",
            action="Read the table with another client, or rewrite it with file.format=parquet.",
        )
    wanted: Sequence[DataField] = table_schema.fields
    if columns is not None and columns is not table_schema.names:
        names = in_schema_order(table_schema, [*table_schema.trimmed_primary_key, *columns])
        wanted = [table_schema.field(name) for name in names]
    source = inputs.open_input(path)
    try:
        file = FileToOpen(source, path, meta, wanted, file_schema)
        with mapped_errors(path):
            size = source.size()
            if size != meta.file_size:
                recorded = counted(meta.file_size, "byte")
                raise file.damaged(counted(size, "byte"), f"{recorded}, as its meta says")
            stored = opener(file)
        chosen = _columns(stored.schema, wanted, table_schema, file_schema, path, partition)
        deleted = (
            np.empty(0, np.int64) if meta.deleted is None else deleted_rows(inputs, meta.deleted)
        )
        if len(deleted) and deleted[-1] >= meta.row_count:
            raise file.damaged(f"{meta.row_count} rows", f"row {deleted[-1]}, which is deleted")
        return DataFile(file, stored, table_schema, chosen, deleted)
    except BaseException:
        source.close()
        raise


def _columns(
    stored_schema: pa.Schema,
    wanted: Sequence[DataField],
    table_schema: TableSchema,
    file_schema: TableSchema,
    path: str,
    partition: bytes | None,
) -> list[_Column]:
    """Return those of the wanted columns that the file has, in table order. The work depends on the number of the
    file's columns, not the table's. A missing column comes from the partition, or is left out if it is nullable.
    """
    columns = [_system_column(stored_schema, field, path, file_schema) for field in SYSTEM_FIELDS]
    is_all = wanted is table_schema.fields
    names = frozenset[str]() if is_all else frozenset(field.name for field in wanted)
    columns_by_name: dict[str, _Column] = {}
    for file_field in stored_schema:
        stored = file_schema.by_name.get(file_field.name)
        field = None if stored is None else table_schema.by_id.get(stored.id)
        if stored is None or field is None or not (is_all or field.name in names):
            continue
        subject = f"column {field.name!r} of {path}"
        cast = column_cast(file_field.type, stored.type, field.type, subject)
        null = field.type.nullable, stored.type.nullable
        columns_by_name[field.name] = _Column(field.name, null[0], stored.name, cast, null[1])
    lacking = [
        name
        for name in table_schema.partition_keys
        if name not in columns_by_name and (is_all or name in names)
    ]
    if lacking and partition is not None:
        columns_by_name |= _partition_columns(lacking, table_schema, partition, path)
    for name in table_schema.required_names:
        if name not in columns_by_name and (is_all or name in names):
            raise _missing_column(table_schema.field(name), file_schema, path)
    columns += [
        columns_by_name[name]
        for name in sorted(columns_by_name, key=table_schema.place_of.__getitem__)
    ]
    return columns


def _partition_columns(
    names: Sequence[str], schema: TableSchema, partition: bytes, path: str
) -> dict[str, _Column]:
    """Return partition columns with one value for all rows. A column whose value is null stays absent."""
    fields = [schema.field(name) for name in schema.partition_keys]
    values = decode_row(partition, [field.type for field in fields], f"the partition of {path}")
    columns = {}
    for field, value in zip(fields, values, strict=True):
        if field.name in names and value is not None:
            constant = plain_column([value], field.type)[0]
            columns[field.name] = _Column(
                field.name, field.type.nullable, None, None, False, constant
            )
    return columns


def _missing_column(field: DataField, file_schema: TableSchema, path: str) -> Exception:
    """Return the error for a NOT NULL column that the file lacks. If the file's schema lacks the column, or has it
    nullable, the table has changed since; if it has the column as NOT NULL, the file is damaged.
    """
    subject, stored = f"column {field.name!r} of {path}", file_column(field, file_schema)
    if stored is None or stored.type.nullable:
        return null_before(subject, "no such column")
    return damaged_file(subject, "no such column", f"a column of the type {field.type}")


def _system_column(
    stored_schema: pa.Schema, field: pa.Field, path: str, file_schema: TableSchema
) -> _Column:
    if not file_schema.primary_keys:
        return _Column(field.name, False, None, None, value=pa.scalar(0, field.type))
    index = stored_schema.get_field_index(field.name)
    stored_type = None if index < 0 else stored_schema.field(index).type
    if stored_type is None or not pa.types.is_integer(stored_type):
        text = "no such column" if stored_type is None else f"values of {stored_type}"
        raise damaged_file(f"column {field.name!r} of {path}", text, f"values of {field.type}")
    cast = None if stored_type == field.type else cast_to(field.type)
    return _Column(field.name, False, field.name, cast)
