"""Reads the rows of a training set from a file: Parquet, Arrow's IPC file or stream, CSV with a line of names.

    labels.csv    user,at,label                 key columns: the types of the table
                  7,2026-01-31 10:00:00,1       times: with a zone, or else in UTC; or dates
                                                others: whole numbers, numbers, flags, dates or texts, as Arrow finds

Values of keys and times in CSV are texts of `format.parsed_value`, as in `widetable write`; an empty field without
quotes is null. In: a path, and which columns hold keys and times. Out: all rows, in memory. Raises NotFoundError for a
missing file, InvalidError for a file of another form, with the row of a wrong value, StorageError for errors of the
system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO, Final, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from widetable.cli.input.checked_output import storage_errors
from widetable.cli.input.row_files import ending_of, opened
from widetable.cli.input.row_inputs import typed_column
from widetable.cli.input.text_encoding import check_encoding
from widetable.errors import InvalidError
from widetable.format.parsed_text import parsed_texts
from widetable.kernels.arrow_buffers import one_array
from widetable.schema.types import DataType

Texts: TypeAlias = Mapping[str, pa.DataType]
_TIME: Final = DataType("TIMESTAMP_LTZ", precision=6)
_DATE: Final = DataType("DATE")
_DATE_LENGTH: Final = len("2026-01-31")
_ARROW_FILE: Final = b"ARROW1"


def entity_file(path: str, at: str, keys: Mapping[str, DataType]) -> pa.Table:
    """Return the rows of a file. at: the column of times. keys: the types of the columns that hold keys."""
    ending = ending_of(path, _READERS, "Rename the file.")
    texts = dict.fromkeys((*keys, at), pa.string()) if ending == "csv" else {}
    try:
        with opened(path) as file, storage_errors(path):
            rows = _READERS[ending](file, path, texts)
    except (pa.ArrowException, OSError) as cause:
        raise InvalidError(
            path,
            found=str(cause).splitlines()[0],
            expected=f"a file of rows, as .{ending} says",
            action="Correct the file, or its name.",
        ) from cause
    return _typed(rows, path, {at: _time_type(rows, at), **keys}) if texts else rows


def _parquet(file: BinaryIO, path: str, texts: Texts) -> pa.Table:
    return pq.ParquetFile(file).read()


def _arrow(file: BinaryIO, path: str, texts: Texts) -> pa.Table:
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    file.seek(0)
    with (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file) as reader:
        return reader.read_all()


def _csv(file: BinaryIO, path: str, texts: Texts) -> pa.Table:
    """Return the rows. texts: the columns that stay texts; Arrow finds the types of others."""
    check_encoding(file, path)
    conversion = pyarrow.csv.ConvertOptions(
        column_types=texts,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(file, parse_options=parsing, convert_options=conversion)


def _time_type(rows: pa.Table, at: str) -> DataType:
    """Return DATE for times whose first text has the length of a date."""
    if rows.column_names.count(at) != 1:
        return _TIME
    first = next((text for text in rows.column(at).to_pylist() if text is not None), "")
    return _DATE if len(first.strip()) == _DATE_LENGTH else _TIME


def _typed(rows: pa.Table, path: str, types: Mapping[str, DataType]) -> pa.Table:
    """Return the rows with these columns of texts in their types. Names that come twice are left to the read."""

    def place(at: int) -> str:
        return f"{path}, row {at + 1}"

    for name, kind in types.items():
        if rows.column_names.count(name) == 1:
            texts = one_array(rows.column(name))
            column = typed_column(texts, parsed_texts, name, kind, place)
            rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


_READERS: Final[dict[str, Callable[[BinaryIO, str, Texts], pa.Table]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "arrow": _arrow,
}
