r"""Rows and changes as a stream of bytes: JSON lines, CSV, a Parquet file, or columns of text for people.

In: record batches of one schema; out: bytes in a sink. Memory: one batch. Values are printed as
format/printed_value.py says.
Raises InvalidError for columns that CSV does not have and for an output that is there already, NotFoundError for one in
no directory, StorageError when the sink refuses.

    table      a head, then a line for each row; columns are as wide as the widest value of a batch; null is -
    csv    := line line*
    line   := field { "," field } LF
    field  := number, flag, NaN, Infinity | \" text \" | nothing for null      ; quotes in text are doubled

Rows (20, null, 1.50) and (1, "Oslo", null) of id, city, price:

    json                                               csv                     table
    {"id": 20, "city": null, "price": "1.50"}          "id","city","price"     id  city  price
    {"id": 1, "city": "Oslo", "price": null}           20,,"1.50"              20  -     1.50
                                                       1,"Oslo",                1  Oslo  -

Only numbers of machines stand bare: a DECIMAL is a text, as no reader of JSON may round it. What is
written here `widetable write` reads back without loss, but for the columns of text for people.
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

from widetable.cli.input.refused_file import RefusingFile, output_errors, storage_errors
from widetable.cli.output.console import without_controls, write_line
from widetable.cli.output.frame_text import NOTHING, aligned
from widetable.errors import InvalidError
from widetable.format.printed_value import printed, printed_rows
from widetable.messages.counted import counted
from widetable.storage.locate import local_path

STANDARD_OUTPUT: Final = "-"
_ITS_NAME: Final = "standard output"
Batches = Iterable[pa.RecordBatch]


# The writers of `WRITERS`. Out: how many rows. The schema is given, as there may be no batch at all: a
# head of CSV, or a Parquet file, has the columns of a result without rows.


def _write_json(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    rows = 0
    for batch in batches:
        lines = (json.dumps(row, ensure_ascii=False) for row in printed_rows(batch))
        sink.write("".join(f"{line}\n" for line in lines).encode())
        rows += batch.num_rows
    return rows


def _write_csv(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    """Refuses nested columns before it has written a byte: there is no one way to put a list into a field."""
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise InvalidError(
            "format csv",
            found=f"the nested columns {', '.join(nested)}",
            expected="plain columns",
            action="Leave these columns out, or use json or parquet.",
        )
    rows = 0
    sink.write(f"{','.join(_quoted(pa.array(schema.names)).to_pylist())}\n".encode())
    for batch in batches:
        fields = [_csv_fields(column) for column in batch.columns]
        # Lines are joined by columns, not by rows: Arrow makes a batch of them at once. One empty text
        # more, for the line's end; nulls become nothing, while an empty text has its quotes.
        ends = pa.array([""]).take(pa.array(np.zeros(batch.num_rows, np.int8)))
        lines = pc.binary_join_element_wise(
            pc.binary_join_element_wise(*fields, ",", null_handling="replace"), ends, "\n"
        )
        sink.write("".join(lines.to_pylist()).encode())
        rows += batch.num_rows
    return rows


def _csv_fields(column: pa.Array) -> pa.Array:
    """Numbers and flags without quotes, all else printed within.

    Floats are Arrow's shortest texts; NaN and the infinities alone are those of `printed`, which
    `write` knows.
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


# In the types of the batches as they are.
def _write_parquet(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    rows = 0
    with pq.ParquetWriter(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_table(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    # Widths only grow from batch to batch: what is written is not moved any more, so that a table of any
    # size needs the memory of one batch, and its columns may shift to the right on the way.
    rows, columns = 0, [[name] for name in schema.names]
    widths = [0] * len(columns)
    right = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in schema.types]

    def put() -> None:
        nonlocal widths
        widths = [max(width, *map(len, each)) for width, each in zip(widths, columns, strict=True)]
        sink.write("".join(f"{line}\n" for line in aligned(columns, widths, right)).encode())

    for batch in batches:
        texts = [[_cell(value) for value in printed(column)] for column in batch.columns]
        # The head stands above the first rows.
        columns = texts if rows else [h + each for h, each in zip(columns, texts, strict=True)]
        if rows := rows + batch.num_rows:
            put()
    if not rows:
        put()
    return rows


def _cell(value: Any) -> str:
    """One line, whatever the text has: numbers, lists and objects as JSON, control characters as digits."""
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
    """A sink to a file that was not there, and is not when the block raises: it is whole or gone.

    Under its own name from the beginning, so a process that is killed leaves a part of it; the next
    call refuses that (InvalidError), and overwrites nothing.
    """
    where = local_path(path)
    with storage_errors(path):
        try:
            file = open(where, "xb")  # noqa: SIM115
        except FileExistsError as cause:
            raise InvalidError(
                "--output",
                found=f"{path}, which is there",
                expected="a new file",
                action="Name another file, or remove this one.",
            ) from cause
    try:
        yield pa.PythonFile(RefusingFile(file, path), "w")
        # What is buffered goes to the disk here: a full one refuses now, and the file is taken away.
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
    """A new file, or standard output, which takes Parquet only where it is no terminal, and is not closed."""
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
            action="Give --output, or redirect the output.",
        )
    yield pa.PythonFile(RefusingFile(sys.stdout.buffer, _ITS_NAME), "w")
    with output_errors(_ITS_NAME):
        sys.stdout.flush()


def write_rows(format: str, output: str | None, batches: Batches, schema: pa.Schema) -> None:
    """Rows in a format, to a new file, of which it is said then, or to standard output."""
    with output_sink(format, output) as sink:
        rows = WRITERS[format](batches, schema, sink)
    if output not in (None, STANDARD_OUTPUT):
        write_line(f"{counted(rows, 'row')} in {output}")
