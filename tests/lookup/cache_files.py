"""Tables, data files and caches as the lookup package meets them; the data files themselves are not needed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tests.lookup.mapped_rows import cut
from widetable.format.column_stats import EMPTY_STATS
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.row_batch import SYSTEM_FIELDS
from widetable.lsm.file_rows import Caches
from widetable.schema.new_schema import new_schema
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable.write.table_state import TableState
from widetable_lookup.cache_paths import is_table_folder, temporary_state

COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.string()), ("n", pa.float64()), ("b", pa.bool_())])


def table_at(
    root: Path,
    columns: pa.Schema = COLUMNS,
    primary_key: Sequence[str] = ("k",),
    options: Mapping[str, str] | None = None,
) -> TableState:
    schema = new_schema(columns, primary_key=primary_key, options=options)
    return TableState(LocalFileIO(), TablePaths(str(root)), schema, lambda _: schema)


def rows_of(keys: Sequence[int], primary_key: Sequence[str] = ("k",)) -> pa.RecordBatch:
    """Row batches of COLUMNS: the values follow from the key, so that wrong rows are seen. Keys ascend."""
    values = pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.int64()),
            pa.array([text_of(key) for key in keys]),
            pa.array([None if key % 5 == 0 else key / 4 for key in keys], pa.float64()),
            pa.array([key % 3 == 0 for key in keys]),
        ],
        schema=pa.schema([field.with_nullable(field.name not in primary_key) for field in COLUMNS]),
    )
    numbers = pa.array([key * 10 for key in keys], pa.int64())
    kinds = pa.array([3 if key % 7 == 0 else 0 for key in keys], pa.int8())
    return pa.RecordBatch.from_arrays(
        [numbers, kinds, *values.columns], schema=pa.schema([*SYSTEM_FIELDS, *values.schema])
    )


def text_of(key: int) -> str:
    return f"text of {key:09d}"


def file_of(path: str, rows: int, level: int = 1) -> DataFileMeta:
    """What a manifest would say of a data file."""
    return DataFileMeta(
        file_name=os.path.basename(path),
        file_size=1000 + rows,
        row_count=rows,
        min_key=b"",
        max_key=b"",
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=level,
    )


def path_of(table: TableState, name: str = "data-1.parquet") -> str:
    return f"{table.paths.root}/bucket-0/{name}"


def build(
    caches: Caches,
    table: TableState,
    rows: pa.RecordBatch,
    name: str = "data-1.parquet",
    ends: Sequence[int] = (),
) -> DataFileMeta:
    """Cache these rows as those of a data file, in batches that end at `ends`."""
    path = path_of(table, name)
    file = file_of(path, rows.num_rows)
    writer = caches.writer(table, path)
    if writer is not None:
        for batch in cut(rows, ends):
            writer.write(batch)
        writer.close(file)
    return file


def found(
    caches: Caches,
    table: TableState,
    file: DataFileMeta,
    keys: pa.RecordBatch,
    columns: Sequence[str] = COLUMNS.names,
) -> tuple[list[int], pa.RecordBatch] | None:
    """(hits, rows), or None when there is no cache."""
    rows = caches.open(table, path_of(table, file.file_name), file, columns)
    if rows is None:
        return None
    try:
        hits, taken = rows.find(keys)
    finally:
        rows.close()
    taken.validate(full=True)
    return hits.tolist(), taken


def key_batch(keys: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.int64())], names=["k"])


def text_keys(keys: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([text_of(key) for key in keys])], names=["s"])


def caches_on_disk(directory: Path) -> list[Path]:
    """Complete caches of all tables."""
    return sorted(path for path in _below_tables(directory) if temporary_state(path.name) is None)


def temporaries_on_disk(directory: Path) -> list[Path]:
    """What is being built or removed."""
    return sorted(path for path in _below_tables(directory) if temporary_state(path.name))


def _below_tables(directory: Path) -> list[Path]:
    folders = [path for path in directory.glob("*") if is_table_folder(path.name)]
    return [path for folder in folders for path in folder.iterdir()]
