"""Rows in files that people have: Parquet, CSV with a line of names, JSON lines, as batches of the same columns.

In: paths, -: standard input, the table's schema. Out: record batches. A column that is anywhere in the files is one
of all rows, null where a file, or an object of JSON, lacks it. What cannot be read twice, such as a pipe, is put into a
temporary file first. Raises NotFoundError for a file that is not there, InvalidError for one of another form and for
columns that the table does not take, StorageError for what the system refuses.

    a.csv    id,city      1,Oslo              rows    id  city  price
    b.json   {"id": 2, "price": "1.50"}               1   Oslo  null
                                                      2   null  1.50

A row whose own columns could not be written by themselves is refused (`write/row_columns`).

Read twice: once for the names, as one commit has one set of columns and the last line of the last file may have one
more; then for the rows, while they are written. The first pass reads lines of JSON to their end, unless all columns of
the table and that of row kinds were seen before; of the other forms it reads the names alone. In a table of partial
updates that null leaves the value that is there.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, cast

import pyarrow as pa

from widetable.cli.input.refused_file import storage_errors
from widetable.cli.input.row_inputs import INPUTS, Check, RowInput
from widetable.errors import InvalidError
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.schema.types import MAX_LENGTH, DataType, arrow_type
from widetable.storage.locate import local_path
from widetable.storage.temporary_directory import temporary_directory
from widetable.write.row_columns import RowColumns
from widetable.write.write_batch import write_columns

_ENDINGS: Final = {
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "csv": "csv",
    "parquet": "parquet",
}
_TEXT: Final = DataType("VARCHAR", length=MAX_LENGTH)


@contextlib.contextmanager
def row_batches(
    paths: Sequence[str], format: str | None, schema: TableSchema, row_kind: str | None
) -> Iterator[Iterator[pa.RecordBatch]]:
    """All rows, file by file; files are closed with the block. format: None: by the names of the files. row_kind: None:
    the usual name, which files need not have.

    Names are checked here, before the first row is read: what the table refuses has written nothing.
    The iterator is used inside the block only, as it opens the files.
    """
    kind_name = ROW_KIND_COLUMN if row_kind is None else row_kind
    _check_row_kind(row_kind, schema)
    with contextlib.ExitStack() as spools:
        files = [_RowFile(path, format, spools) for path in paths]
        # Where these were seen no more can be: lines of JSON are not read to the end then.
        enough = {*schema.names, kind_name}
        found = dict.fromkeys(name for file in files for name in file.names(enough))
        if row_kind is not None and found and row_kind not in found:
            raise InvalidError(
                "--row-kind",
                found=f"{row_kind!r}, which no row has",
                expected=f"one of {', '.join(found)}",
                action="Correct the name, or leave it out.",
            )
        # For what it raises. Without any name there is no row, and nothing is written.
        if found:
            write_columns(schema, list(found), kind_name)
        types = {
            name: schema.field(name).type if name in schema.by_name else _TEXT for name in found
        }
        check = RowColumns(schema).check
        yield (batch for file in files for batch in file.batches(types, check))


# A column of the table that holds kinds is the option `rowkind.field`; this one is no column of the table.
def _check_row_kind(row_kind: str | None, schema: TableSchema) -> None:
    if row_kind == "" or row_kind in schema.by_name:
        raise InvalidError(
            "--row-kind",
            found=f"{row_kind!r}, {'a column of the table' if row_kind else 'no name'}",
            expected="a column of +I, -U, +U, -D that the files have and the table has not",
            action="Name that column in the files otherwise, or leave --row-kind out.",
        )


def _spool_file(name: str) -> BinaryIO:
    """A file without a name, for a copy of an input that can be read once only. name: of the input."""
    folder = temporary_directory(f"for a copy of {name}, which can be read only once")
    return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


class _RowFile:
    """A file that can be read twice. spools: close what it is copied to.

    Opened when it is made, which tells at once that it is not there; then anew for each pass, so that
    of many files one is open at a time. What is copied (standard input, a pipe) stays open, on the
    disk of the system's temporary files, without a name.
    """

    def __init__(self, path: str, format: str | None, spools: contextlib.ExitStack) -> None:
        self._path = path
        self._reader = INPUTS[format or _format_of(path)]
        self._spooled: BinaryIO | None = None
        with _opened(path) as file, storage_errors(path):
            if path == "-" or not file.seekable():
                self._spooled = spools.enter_context(_spool_file(path))
                shutil.copyfileobj(file, self._spooled, 1 << 20)

    def names(self, enough: set[str]) -> list[str]:
        """Of the columns, each once. `RowInput` says what `enough` is."""
        with self._rows() as rows:
            names = list(rows.names(enough))
        for name in names:
            if names.count(name) > 1:
                raise InvalidError(
                    self._path,
                    found=f"the column {name!r} twice",
                    expected="each column once",
                    action="Drop one of them.",
                )
        return names

    def batches(self, types: dict[str, DataType], check: Check) -> Iterator[pa.RecordBatch]:
        """All rows, with all of these columns. The file is open from the first batch asked for to the last."""
        with self._rows() as rows:
            for batch in rows.batches(types, check):
                yield _of_all(batch, types)

    @contextlib.contextmanager
    def _rows(self) -> Iterator[RowInput]:
        """For one pass. Errors of the system are ours already where they leave the inner block; what is left of
        OSError has no errno, and is Arrow's word for bytes of another form.
        """
        opened = contextlib.nullcontext(self._spooled) if self._spooled else _opened(self._path)
        try:
            with opened as file, storage_errors(self._path):
                yield self._reader(file, self._path)
        except (pa.ArrowException, OSError) as cause:
            raise InvalidError(
                self._path,
                found=str(cause).splitlines()[0],
                expected="a file of rows",
                action="Correct the file, or name its --format.",
            ) from cause


def _of_all(batch: pa.RecordBatch, types: dict[str, DataType]) -> pa.RecordBatch:
    """With a column of nulls for each that the batch lacks."""
    columns = [
        batch.column(name)
        if name in batch.schema.names
        else pa.nulls(batch.num_rows, arrow_type(kind))
        for name, kind in types.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def _format_of(path: str) -> str:
    """By what stands behind the last dot, in any case; standard input has no name that tells."""
    ending = path.rpartition(".")[2].lower()
    if ending not in _ENDINGS:
        raise InvalidError(
            path,
            found="a name that does not tell the format",
            expected=f"one that ends with .{', .'.join(_ENDINGS)}",
            action="Name the --format.",
        )
    return _ENDINGS[ending]


def _opened(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    with storage_errors(path):
        return open(local_path(path), "rb")
