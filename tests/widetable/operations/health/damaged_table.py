"""A table with data files of several row groups, levels and buckets, for tests that damage them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from widetable.format import data_file_writer
from widetable.format.manifest_entry import ManifestEntry

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.string())])
OPTIONS = {
    "bucket": "2",
    "widetable.fsync": "false",
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "100",
}
GROUP_ROWS = 10
KEYS = range(100)


def rows(value: str, keys: range = KEYS) -> pa.Table:
    return pa.table({"k": list(keys), "a": [f"{value}{k}" for k in keys]}, SCHEMA)


def create(root: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> wt.Table:
    """An empty table whose files get a row group for every GROUP_ROWS rows."""
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", GROUP_ROWS)
    given = {**OPTIONS, **options}
    return wt.Catalog(str(root)).create_table("d.t", SCHEMA, primary_key=["k"], options=given)


def live(table: wt.Table) -> list[ManifestEntry]:
    """Of the newest snapshot."""
    return table._committer.live_files.live_entries(table._committer.snapshots.latest())


def path_of(table: wt.Table, entry: ManifestEntry) -> Path:
    return Path(table.path, f"bucket-{entry.bucket}", entry.file.file_name)


def values(table: wt.Table) -> dict[int, str]:
    return {row["k"]: row["a"] for row in table.scan().to_arrow().to_pylist()}


def damage_group(path: Path, group: int) -> set[int]:
    """Flip a bit in the key column of one row group; the keys of it."""
    keys = set(pq.ParquetFile(path).read_row_group(group, ["k"]).column("k").to_pylist())
    spoil_group(path, group)
    return keys


def spoil_group(path: Path, group: int) -> None:
    """The same without reading the keys, which Python may not hold."""
    metadata = pq.ParquetFile(path).metadata.row_group(group)
    names = [metadata.column(i).path_in_schema for i in range(metadata.num_columns)]
    chunk = metadata.column(names.index("k"))
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(data)


def files_by_bucket(table: wt.Table) -> Counter[int]:
    return Counter(entry.bucket for entry in live(table))
