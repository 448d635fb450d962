"""Changes as a stream of bytes: JSON lines, CSV, or a Parquet file.

In: record batches of one schema; out: bytes in a sink. Memory: one batch. In JSON what it does not have becomes text.
Raises InvalidError for columns that CSV does not have, OSError when the sink refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from widetable.errors import InvalidError

Batches = Iterable[pa.RecordBatch]


def _write_json(batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    rows = 0
    for batch in batches:
        lines = (json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
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
    with pyarrow.csv.CSVWriter(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


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


def write_changes(format: str, batches: Batches, schema: pa.Schema, sink: pa.NativeFile) -> int:
    """How many rows were written. format: a key of `WRITERS`."""
    return WRITERS[format](batches, schema, sink)
