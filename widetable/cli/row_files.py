"""Rows in files that people have: Parquet, CSV with a line of names, JSON lines. Read batch by batch.

In: paths, -: standard input. Out: record batches, in which columns of the table have its types as far as the format has
none. Raises NotFoundError for a file that is not there, InvalidError for one of another form.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from widetable.errors import InvalidError, NotFoundError

_LINES_AT_ONCE: Final = 65_536
_ENDINGS: Final = {
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "csv": "csv",
    "parquet": "parquet",
}


def row_batches(
    paths: Sequence[str], format: str | None, schema: pa.Schema, row_kind: str
) -> Iterator[pa.RecordBatch]:
    """All rows, file by file. format: None: by the names of the files. schema: of the table."""
    known = schema if row_kind in schema.names else schema.append(pa.field(row_kind, pa.string()))
    for path in paths:
        read = _READERS[format or _format_of(path)]
        try:
            with _opened(path) as file:
                yield from read(file, known)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as cause:
            raise InvalidError(
                path,
                found=str(cause).splitlines()[0],
                expected=f"rows of {', '.join(schema.names)}",
                action="Correct the file, or name its --format.",
            ) from cause


def _format_of(path: str) -> str:
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
    try:
        return open(path, "rb")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError) as cause:
        raise NotFoundError(
            path, found="no file", expected="a file of rows", action="Check the path."
        ) from cause


def _parquet(file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    source = file if file.seekable() else io.BytesIO(file.read())
    yield from pq.ParquetFile(source).iter_batches()


def _csv(file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    types = {field.name: field.type for field in schema if not pa.types.is_nested(field.type)}
    how = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    with pyarrow.csv.open_csv(file, convert_options=how) as reader:
        yield from reader


def _json(file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    how: Any = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
    while lines := list(islice(file, _LINES_AT_ONCE)):
        given = b"".join(lines)
        if not given.strip():
            continue
        inferred = pyarrow.json.read_json(io.BytesIO(given))
        table = pyarrow.json.read_json(io.BytesIO(given), parse_options=how)
        # A column that no line has is not written, rather than null.
        yield from table.select(inferred.column_names).to_batches()


_READERS: Final[dict[str, Callable[[BinaryIO, pa.Schema], Iterator[pa.RecordBatch]]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}
