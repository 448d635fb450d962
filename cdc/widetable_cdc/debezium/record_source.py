"""Where Debezium's records come from: Arrow data with their keys and values, or lines of JSON.

    Arrow table, batch, reader          columns value and, if it is there, key
    a path, as text or Path             a file of JSON lines; a line is a value
    an iterable                         of Paths, of texts or bytes (values), or of Arrow batches

Records come in chunks, numbered from 0 over all of them. Blank lines are no records. Raises InvalidError for other data
and StorageError for a file that cannot be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from widetable import InvalidError, StorageError
from widetable.connector import arguments
from widetable_cdc.debezium.records import Records

# Bytes and records of a chunk: what a chunk's fields need is a few times as much.
_BLOCK_BYTES: Final = 16 << 20
_CHUNK_RECORDS: Final = 32_768
_LINE_END: Final = 10
_RETURN: Final = 13


def record_chunks(data: Any) -> Iterator[Records]:
    """Yield the records of data, chunk by chunk."""
    first = 0
    for keys, values in _columns(data):
        for at in range(0, len(values), _CHUNK_RECORDS):
            part = values.slice(at, _CHUNK_RECORDS)
            ordinals = np.arange(first, first + len(part), dtype=np.int64)
            yield Records.of(
                None if keys is None else keys.slice(at, _CHUNK_RECORDS), part, ordinals
            )
            first += len(part)


def _columns(data: Any) -> Iterator[tuple[pa.Array | None, pa.Array]]:
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        data = data.to_reader()
    if isinstance(data, pa.RecordBatchReader):
        for batch in data:
            yield _key_and_value(batch)
        return
    if isinstance(data, str | os.PathLike):
        data = [Path(data)]
    if isinstance(data, Iterable):
        yield from _of_items(iter(data))
        return
    raise arguments.refused(data, "data", "Arrow data, paths, or texts of JSON")


def _key_and_value(batch: pa.RecordBatch) -> tuple[pa.Array | None, pa.Array]:
    names = batch.schema.names
    if "value" not in names:
        raise InvalidError(
            "data",
            found=f"the columns {', '.join(names) or 'none'}",
            expected="a column 'value', and 'key' if the records have keys",
            action="Name the columns as Kafka's source does.",
        )
    return batch.column("key") if "key" in names else None, batch.column("value")


def _of_items(items: Iterator[Any]) -> Iterator[tuple[pa.Array | None, pa.Array]]:
    """Yield paths as their lines, Arrow batches as their columns, and other items as values."""
    for item in items:
        if isinstance(item, pa.RecordBatch):
            yield _key_and_value(item)
        elif isinstance(item, os.PathLike):
            yield from ((None, values) for values in _lines(item))
        else:
            values = list(islice(chain([item], items), _CHUNK_RECORDS))
            yield None, _array(values)


def _array(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str, bytes}:
        return pa.array(
            [value.encode() if isinstance(value, str) else value for value in values],
            pa.large_binary(),
        )
    raise arguments.refused(values, "data", "texts or bytes of JSON, or None for tombstones")


def _lines(path: str | os.PathLike[str]) -> Iterator[pa.Array]:
    """Yield the lines of a file in blocks. A line keeps its line end, which is a space to JSON."""
    rest = b""
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                whole, end, after = block.rpartition(b"\n")
                if not end:
                    rest += block
                    continue
                yield _split(rest + whole + end)
                rest = after
    except FileNotFoundError:
        raise arguments.refused(path, "data", "a file that is there") from None
    except OSError as error:
        raise StorageError(
            f"file {os.fspath(path)!r}",
            found=str(error),
            expected="a file that can be read",
            action="Correct the cause, and apply the records again.",
        ) from error
    if rest:
        yield _split(rest)


def _split(block: bytes) -> pa.Array:
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LINE_END) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    lines = pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)
    sizes, firsts = np.diff(offsets), data[offsets[:-1]]
    is_blank = ((sizes == 1) & (firsts == _LINE_END)) | ((sizes == 2) & (firsts == _RETURN))
    return lines.filter(pa.array(~is_blank)) if is_blank.any() else lines
