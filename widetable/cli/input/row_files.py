"""Reads the rows of user files (Parquet, CSV with a line of names, JSON lines) as batches with the same columns.

In: paths (- is standard input), the table's schema. Out: record batches. If any file has a column, all batches have it;
a further column lists the names of each row, because a file, or a JSON object, may lack some. An input that cannot be
read twice, such as a pipe, is first copied to a temporary file. Raises NotFoundError for a missing file, InvalidError
for a file of another form and for columns that the table does not take, StorageError for errors of the system.

    a.csv    id,city      1,Oslo              rows    id  city  price   names
    b.json   {"id": 2, "price": "1.50"}               1   Oslo  null    id, city
                                                      2   null  1.50    id, price

A row whose own columns could not be written by themselves is refused (`write/row_columns`).

Files are read twice: once for the names, because one commit has one set of columns and the last line of the last file
may add one; then for the rows, while they are written. The first pass reads JSON lines to the end, unless it has seen
all columns of the table and the column of row kinds; of other formats it reads only the names.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa

from widetable.cli.input.checked_output import storage_errors
from widetable.cli.input.row_inputs import INPUTS, LISTED, NAMES, Check, RowInput
from widetable.errors import InvalidError
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.schema.types import MAX_LENGTH, DataType, arrow_type
from widetable.storage.locate import local_path
from widetable.storage.temporary_directory import temporary_directory
from widetable.write.owned_columns import callers_columns, owned_columns
from widetable.write.row_columns import RowColumns

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
    """Return an iterator of all rows, file by file. Use it only inside the block, which closes the files.

    format: None: the names of the files decide. row_kind: None: the usual name, which files need not have. Names are
    checked before the first row is read, so refused columns have written nothing.
    """
    kind_name = ROW_KIND_COLUMN if row_kind is None else row_kind
    _check_row_kind(row_kind, schema)
    with contextlib.ExitStack() as spools:
        files = [_RowFile(path, format, spools) for path in paths]
        # There can be no further names, so JSON lines need not be read to the end after these.
        enough = {*schema.names, kind_name}
        names = dict.fromkeys(name for file in files for name in file.names(enough))
        if row_kind is not None and names and row_kind not in names:
            raise InvalidError(
                "--row-kind",
                found=f"{row_kind!r}, which no row has",
                expected=f"one of {', '.join(names)}",
                action="Correct the name, or omit it.",
            )
        # Called for its errors. Without any name there is no row, and nothing is written.
        if names:
            owned_columns(schema, list(names), kind_name, callers_columns(schema))
        types = {
            name: schema.field(name).type if name in schema.by_name else _TEXT for name in names
        }
        check = RowColumns(schema).check
        listed = names_column(schema, row_kind)
        yield (batch for file in files for batch in file.batches(types, check, listed))


def names_column(schema: TableSchema, row_kind: str | None) -> str:
    """Return the name of the column that lists the names of each row: one that the table has not, nor the files."""
    name = "_written_columns"
    while name in schema.by_name or name == row_kind:
        name += "_"
    return name


# The option `rowkind.field` names a column of the table; this argument names a column that only the files have.
def _check_row_kind(row_kind: str | None, schema: TableSchema) -> None:
    if row_kind == "" or row_kind in schema.by_name:
        raise InvalidError(
            "--row-kind",
            found=f"{row_kind!r}, {'a column of the table' if row_kind else 'no name'}",
            expected="a column of +I, -U, +U, -D that the files have and the table does not",
            action="Rename that column in the files, or omit --row-kind.",
        )


def _spool_file(name: str) -> BinaryIO:
    """Create a file without a name, for a copy of an input that can be read only once. name: the input's name."""
    folder = temporary_directory(f"for a copy of {name}, which can be read only once")
    return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


class _RowFile:
    """A file that can be read twice. spools: the stack that closes its copy.

    The constructor opens the file, so a missing file is an error at once. Each pass opens it again, so only one of many
    files is open at a time. The copy of standard input or a pipe stays open, without a name, among the system's
    temporary files.
    """

    def __init__(self, path: str, format: str | None, spools: contextlib.ExitStack) -> None:
        self._path = path
        self._reader = INPUTS[format or _ENDINGS[ending_of(path, _ENDINGS, "Pass --format.")]]
        self._spooled: BinaryIO | None = None
        with opened(path) as file, storage_errors(path):
            if path == "-" or not file.seekable():
                self._spooled = spools.enter_context(_spool_file(path))
                shutil.copyfileobj(file, self._spooled, 1 << 20)

    def names(self, enough: set[str]) -> list[str]:
        """Return the names of the columns, each once. enough: see `RowInput.names`."""
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

    def batches(
        self, types: dict[str, DataType], check: Check, listed: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, with all of these columns. The file is open from the first batch to the last. listed: the
        column with the names of each row, null for all.
        """
        with self._rows() as rows:
            for batch in rows.batches(types, check):
                yield _with_all_columns(batch, types, listed)

    @contextlib.contextmanager
    def _rows(self) -> Iterator[RowInput]:
        """Open the file for one pass.

        The inner block turns errors of the system into errors of widetable. An OSError that remains has no errno: Arrow
        raises it for bytes of another form.
        """
        source = contextlib.nullcontext(self._spooled) if self._spooled else opened(self._path)
        try:
            with source as file, storage_errors(self._path):
                yield self._reader(file, self._path)
        except (pa.ArrowException, OSError) as cause:
            raise InvalidError(
                self._path,
                found=str(cause).splitlines()[0],
                expected="a file of rows",
                action="Correct the file, or pass its --format.",
            ) from cause


def _with_all_columns(
    batch: pa.RecordBatch, types: dict[str, DataType], listed: str
) -> pa.RecordBatch:
    """Return the batch with a column of nulls for each column that it lacks, and with the names of each row."""
    columns = [
        batch.column(name)
        if name in batch.schema.names
        else pa.nulls(batch.num_rows, arrow_type(kind))
        for name, kind in types.items()
    ]
    own = [name for name in batch.schema.names if name != LISTED]
    if LISTED in batch.schema.names:
        names = batch.column(LISTED)
    elif len(own) < len(types):
        whole = pa.array([own], NAMES)
        names = whole.take(pa.array(np.zeros(batch.num_rows, np.int64)))
    else:
        names = pa.nulls(batch.num_rows, NAMES)
    return pa.RecordBatch.from_arrays([*columns, names], names=[*types, listed])


def ending_of(path: str, endings: Iterable[str], action: str) -> str:
    """Return the ending of a name, in lower case; standard input has none. Raises InvalidError for another one.

    action: what the caller may do about it.
    """
    ending = path.rpartition(".")[2].lower()
    if ending not in endings:
        raise InvalidError(
            path,
            found="a name without an ending that tells the format",
            expected=f"a name that ends with .{', .'.join(endings)}",
            action=action,
        )
    return ending


def opened(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """Open a file, or a file: URL, or standard input (-), for reading."""
    if path == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    with storage_errors(path):
        return open(local_path(path), "rb")
