r"""Writes rows and changes as a stream of bytes: JSON lines, CSV, a Parquet file, or aligned text for people.

In: record batches of one schema; out: bytes in a sink. Memory: one batch. format/printed_value.py prints the values.
Raises InvalidError for columns that CSV cannot hold and for an output that exists already, NotFoundError for an output
in a missing directory, StorageError for errors of the sink.

    table      a head, then a line for each row; columns are as wide as the widest value of a batch; null is -
    csv    := line line*
    line   := field { "," field } LF
    field  := number, flag, NaN, Infinity | \" text \" | nothing for null      ; quotes in text are doubled

Rows (20, null, 1.50) and (1, "Oslo", null) of id, city, price:

    json                                               csv                     table
    {"id": 20, "city": null, "price": "1.50"}          "id","city","price"     id  city  price
    {"id": 1, "city": "Oslo", "price": null}           20,,"1.50"              20  -     1.50
                                                       1,"Oslo",                1  Oslo  -

Only integers and floats have no quotes: a DECIMAL is a text, so that no reader of JSON rounds it. `widetable write`
reads all formats back without loss, except `table`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from widetable.cli.input.checked_output import CheckedOutput, output_errors, storage_errors
from widetable.cli.output.console import without_controls, write_line
from widetable.cli.output.frame_text import NOTHING, aligned
from widetable.errors import InvalidError
from widetable.format.printed_value import printed, printed_rows
from widetable.messages.counted import counted
from widetable.storage.locate import local_path

STANDARD_OUTPUT: Final = "-"
_ITS_NAME: Final = "standard output"
Batches = Iterable[pa.RecordBatch]


# The writers of `WRITERS`. They return the number of rows. They get the schema, because there may be no batch: a CSV
# head, or a Parquet file, has the columns even without rows.


def _write_json(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    rows = 0
    for batch in batches:
        lines = (json.dumps(row, ensure_ascii=False) for row in printed_rows(batch))
        sink.write("".join(f"{line}\n" for line in lines).encode())
        rows += batch.num_rows
    return rows


def _write_csv(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    """Write CSV. Nested columns are refused before the first byte, because CSV has no standard form for a list."""
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise InvalidError(
            "format csv",
            found=f"the nested columns {', '.join(nested)}",
            expected="plain columns",
            action="Omit these columns, or use json or parquet.",
        )
    rows = 0
    sink.write(f"{','.join(_quoted(pa.array(schema.names)).to_pylist())}\n".encode())
    for batch in batches:
        fields = [_csv_fields(column) for column in batch.columns]
        # Arrow joins the columns of a whole batch at once. The last column of empty texts gives the line's end. Nulls
        # become empty fields, while an empty text has quotes.
        ends = pa.array([""]).take(pa.array(np.zeros(batch.num_rows, np.int8)))
        lines = pc.binary_join_element_wise(
            pc.binary_join_element_wise(*fields, ",", null_handling="replace"), ends, "\n"
        )
        sink.write("".join(lines.to_pylist()).encode())
        rows += batch.num_rows
    return rows


def _csv_fields(column: pa.Array) -> pa.Array:
    """Return the fields of a column: numbers and flags without quotes, all other values in quotes.

    Floats are Arrow's shortest texts; only NaN and the infinities come from `printed`, so that `write` can read them.
    """
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.string())
    if not pa.types.is_floating(column.type):
        return _quoted(pa.array(printed(column), pa.string()))
    texts = column.cast(pa.string())
    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        others = pa.array([v if isinstance(v, str) else None for v in printed(column)], pa.string())
        texts = pc.coalesce(others, texts)
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")


# Parquet keeps the types of the batches.
def _write_parquet(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    rows = 0
    with pq.ParquetWriter(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_table(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    # Widths only grow from batch to batch, and written lines stay. So a table of any size needs the memory of one
    # batch, and its columns may shift to the right.
    rows, columns = 0, [[name] for name in schema.names]
    widths = [0] * len(columns)
    right = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in schema.types]

    def put() -> None:
        nonlocal widths
        widths = [max(width, *map(len, each)) for width, each in zip(widths, columns, strict=True)]
        sink.write("".join(f"{line}\n" for line in aligned(columns, widths, right)).encode())

    for batch in batches:
        texts = [[_cell(value) for value in printed(column)] for column in batch.columns]
        # The head comes before the first rows.
        columns = texts if rows else [h + each for h, each in zip(columns, texts, strict=True)]
        if rows := rows + batch.num_rows:
            put()
    if not rows:
        put()
    return rows


def _cell(value: Any) -> str:
    """Return the value on one line: numbers, lists and objects as JSON, control characters as digits."""
    if value is None:
        return NOTHING
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return without_controls(text)


WRITERS: Final[dict[str, Callable[[Batches, pa.Schema, pa.NativeFile], int]]] = {
    "json": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "table": _write_table,
}


@contextlib.contextmanager
def new_file(path: str) -> Iterator[pa.NativeFile]:
    """Open a sink to a new file. If the block raises, the file is removed.

    The file has its final name from the start, so a killed process leaves a part of it. The next call then raises
    InvalidError, and overwrites nothing.
    """
    where = local_path(path)
    with storage_errors(path):
        try:
            file = open(where, "xb")  # noqa: SIM115
        except FileExistsError as cause:
            raise InvalidError(
                "--output",
                found=f"{path}, which exists already",
                expected="a new file",
                action="Name another file, or remove this one.",
            ) from cause
    try:
        yield pa.PythonFile(CheckedOutput(file, path), "w")
        # The buffer goes to the disk here: if the disk is full, the error comes now, and the file is removed.
        with storage_errors(path):
            file.close()
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(where)
        raise


@contextlib.contextmanager
def output_sink(format: str, output: str | None) -> Iterator[pa.NativeFile]:
    """Open a new file, or standard output, which is not closed. Parquet is refused on a terminal."""
    if output not in (None, STANDARD_OUTPUT):
        assert output is not None
        with new_file(output) as file:
            yield file
        return
    if format == "parquet" and sys.stdout.isatty():
        raise InvalidError(
            "--format parquet",
            found="a terminal",
            expected="a file",
            action="Pass --output, or redirect the output.",
        )
    yield pa.PythonFile(CheckedOutput(sys.stdout.buffer, _ITS_NAME), "w")
    with output_errors(_ITS_NAME):
        sys.stdout.flush()


def write_rows(format: str, output: str | None, batches: Batches, schema: pa.Schema) -> None:
    """Write rows in a format to standard output, or to a new file; then print the number of rows in the file."""
    with output_sink(format, output) as sink:
        rows = WRITERS[format](batches, schema, sink)
    if output not in (None, STANDARD_OUTPUT):
        write_line(f"{counted(rows, 'row')} in {output}")
