"""Schemas, row batches and data files for the tests of their format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.data_file_reader import open_data_file
from widetable.format.data_file_writer import DataFileWriter
from widetable.format.row_batch import row_batch_schema
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType, assign_field_ids, parse_type
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)


def table_schema(
    columns: dict[str, Any], key: Sequence[str] = ("k",), **options: str
) -> TableSchema:
    """A schema of these columns, types as in a schema file, ids as Paimon gives them."""
    next_id, fields = 0, []
    for name, json in columns.items():
        kind = parse_type(json)
        kind = kind.not_null() if name in key else kind
        own, next_id = next_id, next_id + 1
        kind, next_id = numbered(kind, next_id)
        fields.append(DataField(own, name, kind))
    return TableSchema(0, tuple(fields), next_id - 1, (), tuple(key), options)


def numbered(kind: DataType, next_id: int) -> tuple[DataType, int]:
    return assign_field_ids(kind, next_id)


def batch_of(
    schema: TableSchema, rows: Mapping[str, Any], kinds: list[int] | None = None
) -> pa.RecordBatch:
    """A row batch of these columns, with sequence numbers from 100 on."""
    count = len(next(iter(rows.values())))
    columns: dict[str, Any] = {
        "_SEQUENCE_NUMBER": list(range(100, 100 + count)),
        "_VALUE_KIND": kinds or [0] * count,
        **rows,
    }
    target = row_batch_schema(schema, rows)
    return pa.record_batch([pa.array(columns[f.name], f.type) for f in target], target)


def write(
    path: Path,
    schema: TableSchema,
    batches: Sequence[pa.RecordBatch],
    columns: Sequence[str] | None = None,
    **options: Any,
) -> DataFileMeta:
    names = schema.names if columns is None else columns
    writer = DataFileWriter(IO, str(path), schema, names, schema.typed_options, **options)
    for batch in batches:
        writer.write(batch)
    return writer.close(0, FILE_SOURCE_APPEND)


def read(
    path: Path,
    meta: DataFileMeta,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    batch_bytes: int = 200,
) -> pa.Table:
    with open_data_file(IO, str(path), meta, schema, schema, columns) as file:
        return pa.Table.from_batches(file.batches(batch_bytes), file.schema)


SIMPLE = table_schema({"k": "INT", "v": "STRING", "n": "BIGINT NOT NULL", "w": "DOUBLE"})


def simple_rows(*keys: int) -> dict[str, list[Any]]:
    return {"k": list(keys), "v": [f"v{k}" for k in keys], "n": list(keys), "w": [0.5] * len(keys)}


def rewrite(table: pa.Table, path: Path, **options: Any) -> None:
    """A file of these rows as another client writes it: with no note of ours in its footer."""
    pq.write_table(table.replace_schema_metadata(), path, **options)
