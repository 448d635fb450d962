"""Rows and changes as a stream of bytes: JSON lines, CSV, or a Parquet file.

In: record batches of one schema; out: bytes in a sink. Memory: one batch. Values are printed as
format/printed_value.py says.
Raises InvalidError for columns that CSV does not have and for an output that is there already, OSError when the sink
refuses.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from widetable.arguments import path as checked_path
from widetable.errors import InvalidError
from widetable.format.printed_value import printed, printed_rows

Batches = Iterable[pa.RecordBatch]


def _write_json(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    rows = 0
    for batch in batches:
        lines = (json.dumps(row, ensure_ascii=False) for row in printed_rows(batch))
        sink.write("".join(f"{line}\n" for line in lines).encode())
        rows += batch.num_rows
    return rows


def _write_csv(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise InvalidError(
            "format csv",
            found=f"the nested columns {', '.join(nested)}",
            expected="plain columns",
            action="Leave these columns out, or use json or parquet.",
        )
    rows = 0
    printed_schema = pa.schema([_csv_field(field) for field in schema])
    with pyarrow.csv.CSVWriter(sink, printed_schema) as writer:
        for batch in batches:
            columns = [
                column if column.type == field.type else pa.array(printed(column), field.type)
                for column, field in zip(batch.columns, printed_schema, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=printed_schema))
            rows += batch.num_rows
    return rows


def _csv_field(field: pa.Field) -> pa.Field:
    """Numbers, flags and texts as Arrow writes them, all else printed."""
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return field if any(test(field.type) for test in plain) else field.with_type(pa.string())


def _write_parquet(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    rows = 0
    with pq.ParquetWriter(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


WRITERS: Final[dict[str, Callable[[Batches, pa.Schema, pa.NativeFile], int]]] = {
    "json": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
}


@contextlib.contextmanager
def new_file(path: str) -> Iterator[pa.NativeFile]:
    """A sink to a file that was not there, and is not when the block raises: it is whole or gone."""
    try:
        file = open(checked_path(path, "--output"), "xb")  # noqa: SIM115
    except FileExistsError as cause:
        raise InvalidError(
            "--output",
            found=f"{path}, which is there",
            expected="a new file",
            action="Name another file, or remove this one.",
        ) from cause
    try:
        with file:
            yield pa.PythonFile(file, "w")
    except BaseException:
        os.unlink(path)
        raise


@contextlib.contextmanager
def output_sink(format: str, output: str | None) -> Iterator[pa.NativeFile]:
    """A new file, or standard output, which takes Parquet only where it is no terminal, and is not closed."""
    if output is not None:
        with new_file(output) as file:
            yield file
        return
    if format == "parquet" and sys.stdout.isatty():
        raise InvalidError(
            "--format parquet",
            found="a terminal",
            expected="a file",
            action="Give --output, or redirect the output.",
        )
    yield pa.PythonFile(sys.stdout.buffer, "w")
    sys.stdout.flush()


def write_changes(format: str, batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    """How many rows were written. format: a key of `WRITERS`."""
    return WRITERS[format](batches, schema, sink)
