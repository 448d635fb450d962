"""One Parquet data file, read as row batches of the current table schema.

Source: Paimon `KeyValueFileReaderFactory`, `FormatReaderMapping`; format.md sections 2 and 7. A table column is found
by id in the file's schema, and by that schema's name in the file; a nullable column that is not there is left out of
the batches (absent = null). `_KEY_` columns are never read: keys come from the table columns.
Rows are read in batches of bounded size, never the whole file, and only the columns asked for.
Raises DamagedError where the file is not what its meta and schema say, UnsupportedError for formats and type changes
that this version does not read, NotFoundError when the file is not there, StorageError when the storage refuses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from widetable.errors import InvalidError, StorageError, UnsupportedError
from widetable.format.column_cast import Step, cast_to, column_cast
from widetable.format.damaged_file import damaged_file
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import RowNumbers, deleted_rows
from widetable.format.footer_seal import Seal, seal_of
from widetable.format.parquet_statistics import KeyRange, row_group_key_ranges
from widetable.format.row_batch import SYSTEM_FIELDS, in_schema_order, row_batch_schema
from widetable.format.row_budget import BATCH_BYTES, RowBudget, row_bytes, rows_within
from widetable.format.row_group_width import Leaf, group_bytes, leaves_of
from widetable.row_kind import DELETE, INSERT
from widetable.schema import VALUE_KIND, TableSchema, file_column
from widetable.storage.file_io import FileIO
from widetable.types import DataField, timestamp_unit

_ARROW: Final = "parquet-cpp-arrow"
# So many rows show how wide they are, where the footer does not say.
_PROBED_ROWS: Final = 256


@dataclass(frozen=True)
class _Column:
    """A column of the batches, its name in the file, and what makes its values of those in the file."""

    name: str
    nullable: bool
    file_name: str
    cast: Step | None


class _WideTimes:
    """Columns of int96 that another client wrote, whose times may lie outside of what int64 nanoseconds hold."""

    def __init__(self, parquet: pq.ParquetFile, names: Sequence[str]) -> None:
        """parquet: the file, with int96 read as microseconds."""
        self._parquet = parquet
        self._names = frozenset(names)

    def batches(
        self, batch_rows: int, row_groups: Sequence[int], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """The same rows in microseconds; None when none of these columns is one of them."""
        names = [name for name in columns if name in self._names]
        if not names:
            return None
        found: Iterator[pa.RecordBatch] = self._parquet.iter_batches(
            batch_rows, row_groups=row_groups, columns=names, use_threads=False
        )
        return found

    @staticmethod
    def check(micros: pa.RecordBatch, nanos: pa.RecordBatch, path: str) -> None:
        """Raises UnsupportedError for a time that nanoseconds cannot hold: Arrow lets it wrap around."""
        for name in micros.schema.names:
            try:
                micros.column(name).cast(nanos.schema.field(name).type)
            except pa.ArrowInvalid as cause:
                raise UnsupportedError(
                    f"column {name!r} of {path}",
                    found=f"a time outside of the years 1677 to 2262: {cause}",
                    expected="times that 64 bits of nanoseconds hold",
                    action="Read the column with another client, or leave it out.",
                ) from cause


@dataclass(frozen=True)
class _Opened:
    """A file as Arrow reads it."""

    source: pa.NativeFile
    parquet: pq.ParquetFile
    wide_times: _WideTimes | None
    seal: Seal


class DataFile:
    """An open data file; made by `open_data_file`. Not for several threads at once. Close it, or use `with`."""

    def __init__(
        self,
        path: str,
        opened: _Opened,
        schema: TableSchema,
        columns: Sequence[_Column],
        key_ranges: Callable[[], list[KeyRange]],
        deleted: RowNumbers,
    ) -> None:
        self._deleted = deleted
        self._path = path
        self._opened = opened
        self._parquet = opened.parquet
        self._table_schema = schema
        self._columns = tuple(columns)
        self._key_ranges = key_ranges
        self._leaves: tuple[Leaf, ...] = ()
        self.columns: Final = tuple(c.name for c in columns[len(SYSTEM_FIELDS) :])
        self.schema: Final = row_batch_schema(schema, self.columns)
        self.seal: Final = opened.seal

    def batches(
        self,
        batch_bytes: int = BATCH_BYTES,
        row_groups: Sequence[int] | None = None,
        *,
        use_threads: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Row batches of about `batch_bytes` in memory (row_budget), in file order, without deleted rows. row_groups:
        indices, in order; None for all.
        """
        if self._opened.source.closed:
            raise InvalidError(
                self._path, found="a closed file", expected="an open one", action="Open it again."
            )
        groups = range(self._parquet.num_row_groups) if row_groups is None else row_groups
        budget = RowBudget(batch_bytes)
        starts = np.cumsum([0, *self.row_group_rows]).tolist() if len(self._deleted) else ()
        for group in groups:
            at = starts[group] if starts else 0
            for batch in self._group_batches(group, batch_bytes, budget, use_threads=use_threads):
                budget.saw(batch)
                yield self._left(batch, at) if starts else batch
                at += batch.num_rows

    def _left(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """Without deleted rows. at: the place of its first row in the file."""
        low, high = np.searchsorted(self._deleted, [at, at + batch.num_rows])
        if low == high:
            return batch
        counts = np.ones(batch.num_rows, np.bool_)
        counts[self._deleted[low:high] - at] = False
        return batch.filter(pa.array(counts))

    def _group_batches(
        self, group: int, batch_bytes: int, budget: RowBudget, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        names = [column.file_name for column in self._columns]
        wide = self._opened.wide_times
        with _mapped_errors(self._path):
            rows = min(budget.rows, self._rows_at_once(group, names, batch_bytes))
            found = self._parquet.iter_batches(
                rows, row_groups=[group], columns=names, use_threads=use_threads
            )
            micros = None if wide is None else wide.batches(rows, [group], names)
        left = self._parquet.metadata.row_group(group).num_rows
        while True:
            with _mapped_errors(self._path):
                batch = next(found, None)
                if batch is None:
                    break
                left -= batch.num_rows
                if micros is not None:
                    _WideTimes.check(next(micros), batch, self._path)
                row_batch = self._row_batch(batch)
            yield row_batch
        if left:  # Arrow takes a page that it does not know for the end
            raise damaged_file(
                self._path, f"{-left:+} rows in row group {group}", "those it counts"
            )

    def _rows_at_once(self, group: int, names: Sequence[str], batch_bytes: int) -> int:
        """By what the footer says of a row group, and by its first rows where it does not say."""
        self._leaves = self._leaves or leaves_of(self._parquet.schema, frozenset(names))
        metadata = self._parquet.metadata
        size = group_bytes(metadata, group, self._leaves, batch_bytes)
        width = size.bytes / max(metadata.row_group(group).num_rows, 1)
        if size.hidden:
            first = self._parquet.iter_batches(
                _PROBED_ROWS, row_groups=[group], columns=size.hidden, use_threads=False
            )
            width += row_bytes(next(first))
        return rows_within(batch_bytes, width)

    def narrowed(self, columns: Collection[str]) -> DataFile:
        """The same open file with the key and, of its other columns, these only. Closing one closes both."""
        kept = {*self._table_schema.trimmed_primary_key, *columns}
        chosen = [
            column
            for index, column in enumerate(self._columns)
            if index < len(SYSTEM_FIELDS) or column.name in kept
        ]
        return DataFile(
            self._path, self._opened, self._table_schema, chosen, self._key_ranges, self._deleted
        )

    @property
    def row_group_rows(self) -> list[int]:
        """How many rows each row group has, deleted ones too, in file order."""
        metadata = self._parquet.metadata
        with _mapped_errors(self._path):
            return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def row_group_key_ranges(self) -> list[KeyRange]:
        """Rows and smallest and largest key values of each row group, in file order."""
        with _mapped_errors(self._path):
            return self._key_ranges()

    def close(self) -> None:
        """Let go of the file; batches already given stay valid."""
        self._parquet.close()
        self._opened.source.close()

    def __enter__(self) -> DataFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _row_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for column in self._columns:
            array = batch.column(column.file_name)
            if column.cast is not None:
                array = column.cast(array)
            if array.null_count and not column.nullable:
                raise damaged_file(
                    f"column {column.name!r} of {self._path}",
                    f"{array.null_count} nulls in {len(array)} rows",
                    "a value in every row",
                )
            arrays.append(array)
        kinds = pc.min_max(arrays[1]).as_py()
        if batch.num_rows and not INSERT <= kinds["min"] <= kinds["max"] <= DELETE:
            raise damaged_file(
                f"column {VALUE_KIND!r} of {self._path}",
                f"row kinds from {kinds['min']} to {kinds['max']}",
                f"row kinds from {INSERT} to {DELETE}",
            )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def open_data_file(
    file_io: FileIO,
    path: str,
    meta: DataFileMeta,
    table_schema: TableSchema,
    file_schema: TableSchema,
    columns: Sequence[str] | None = None,
) -> DataFile:
    """Open a file and decide how its columns become the table's; reads the footer only.

    file_schema: the schema that `meta.schema_id` names. columns: table columns wanted, None for all; the key columns
    are added.
    """
    if meta.schema_id != file_schema.id:
        raise InvalidError(
            path,
            found=f"schema {file_schema.id}",
            expected=f"schema {meta.schema_id}, which the file's meta names",
            action="Load that schema.",
        )
    if not meta.file_name.endswith(".parquet"):
        raise UnsupportedError(
            path,
            found=f"a file of the format {meta.file_name.rpartition('.')[2]!r}",
            expected="a Parquet file",
            action="Read the table with another client, or rewrite it with file.format=parquet.",
        )
    names = table_schema.names if columns is None else [*table_schema.trimmed_primary_key, *columns]
    wanted = [table_schema.field(name) for name in in_schema_order(table_schema, names)]
    source = file_io.open_input(path)
    try:
        seal = _check_ends(source, path, meta)
        opened = _open_parquet(source, path, seal, meta, wanted, file_schema)
        chosen = _columns(opened.parquet.schema_arrow, wanted, file_schema, path)
        keys = [table_schema.field(name) for name in table_schema.trimmed_primary_key]
        ranges = partial(row_group_key_ranges, opened.parquet, meta, keys, file_schema, path)
        deleted = (
            np.empty(0, np.int64) if meta.deleted is None else deleted_rows(file_io, meta.deleted)
        )
        return DataFile(path, opened, table_schema, chosen, ranges, deleted)
    except BaseException:
        source.close()
        raise


def _check_ends(source: pa.NativeFile, path: str, meta: DataFileMeta) -> Seal:
    """Before Arrow sees the footer."""
    with _mapped_errors(path):
        size = source.size()
        if size != meta.file_size:
            raise damaged_file(path, f"{size} bytes", f"{meta.file_size} bytes, as its meta says")
        seal = seal_of(source)
        if seal is Seal.BROKEN:
            raise damaged_file(path, "a footer with a wrong checksum", "the footer as written")
        return seal


def _open_parquet(
    source: pa.NativeFile,
    path: str,
    seal: Seal,
    meta: DataFileMeta,
    wanted: Sequence[DataField],
    file_schema: TableSchema,
) -> _Opened:
    with _mapped_errors(path):
        parquet = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
        if parquet.metadata.num_rows != meta.row_count:
            raise damaged_file(
                path,
                f"{parquet.metadata.num_rows} rows",
                f"{meta.row_count} rows, as its meta says",
            )
        _check_names(path, parquet.schema_arrow.names, file_schema)
        names = _int96_columns(parquet)
        if not names:
            return _Opened(source, parquet, None, seal)

        def opened(unit: str) -> pq.ParquetFile:
            return pq.ParquetFile(
                source,
                metadata=parquet.metadata,
                pre_buffer=False,
                page_checksum_verification=True,
                coerce_int96_timestamp_unit=unit,
            )

        unit = _int96_unit(names, wanted, file_schema)
        # What Arrow wrote came from nanoseconds.
        is_wide = unit == "ns" and not (parquet.metadata.created_by or "").startswith(_ARROW)
        wide_times = _WideTimes(opened("us"), names) if is_wide else None
        return _Opened(source, opened(unit), wide_times, seal)


def _check_names(path: str, names: Sequence[str], file_schema: TableSchema) -> None:
    """A file may lack columns, so one whose name has a wrong bit would be taken for one that it does not have."""
    known = {field.name for field in file_schema.fields}
    foreign = [name for name in names if name not in known and not name.startswith("_")]
    if foreign:
        raise damaged_file(
            f"column {foreign[0]!r} of {path}",
            f"a column that schema {file_schema.id} does not have",
            "columns of the schema that the file was written with",
        )


def _int96_columns(parquet: pq.ParquetFile) -> list[str]:
    """Columns of the file with an int96 in them."""
    leaves = (parquet.schema.column(i) for i in range(len(parquet.metadata.schema)))
    paths = (leaf.path for leaf in leaves if leaf.physical_type == "INT96")
    return list(dict.fromkeys(path.partition(".")[0] for path in paths))


def _int96_unit(names: Sequence[str], wanted: Sequence[DataField], file_schema: TableSchema) -> str:
    """The unit in which to read these columns of int96: the finest that a wanted one needs.

    int96 has no unit of its own; read as nanoseconds, years before 1678 and after 2261 would come out wrong.
    """
    digits = 0
    for field in wanted:
        stored = file_column(field, file_schema)
        if stored is not None and stored.name in names:
            digits = max(digits, 9 if stored.type.is_nested else stored.type.precision or 0)
    return timestamp_unit(digits)


def _columns(
    found: pa.Schema, wanted: Sequence[DataField], file_schema: TableSchema, path: str
) -> list[_Column]:
    columns = [_system_column(found, field, path) for field in SYSTEM_FIELDS]
    for field in wanted:
        stored = file_column(field, file_schema)
        index = -1 if stored is None else found.get_field_index(stored.name)
        subject = f"column {field.name!r} of {path}"
        if stored is None or index < 0:
            if not field.type.nullable:
                raise damaged_file(subject, "no such column", f"a column of the type {field.type}")
            continue
        cast = column_cast(found.field(index).type, stored.type, field.type, subject)
        columns.append(_Column(field.name, field.type.nullable, stored.name, cast))
    return columns


def _system_column(found: pa.Schema, field: pa.Field, path: str) -> _Column:
    index = found.get_field_index(field.name)
    found_type = None if index < 0 else found.field(index).type
    if found_type is None or not pa.types.is_integer(found_type):
        text = "no such column" if found_type is None else f"values of {found_type}"
        raise damaged_file(f"column {field.name!r} of {path}", text, f"values of {field.type}")
    cast = None if found_type == field.type else cast_to(field.type)
    return _Column(field.name, False, field.name, cast)


@contextlib.contextmanager
def _mapped_errors(path: str) -> Iterator[None]:
    """Pyarrow's errors become ours. An OSError with a number is the storage's, one without the decoder's."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, LookupError) as cause:
        if isinstance(cause, OSError) and cause.errno is not None:
            raise StorageError(
                path,
                found=f"{cause.strerror or cause} (errno {cause.errno})",
                expected="a storage that gives the bytes",
                action="Mend the storage, then retry.",
            ) from cause
        text = str(cause).partition("\n")[0]
        if (
            type(cause) is pa.ArrowException
        ):  # Arrow's "unknown error": the system refused a thread, for instance
            raise StorageError(
                path,
                found=text,
                expected="a system that lets the file be read",
                action="Give the process what it lacks, then retry.",
            ) from cause
        raise damaged_file(
            path, f"bytes that do not decode: {text}", "a Parquet data file"
        ) from cause
