"""Tables whose data files need not exist: commits open none of them.

A commit that was overtaken would open its own files to give them later numbers. So writers here write keys alone, in
tables where columns are merged one by one: then no order counts.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tests.support.models.row_values import row_of
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.committer import Committer
from widetable.format.binary_row import EMPTY_ROW
from widetable.format.column_stats import EMPTY_STATS, Stats
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataType
from widetable.storage.file_io import FileIO
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage

KEY_TYPES = [DataType("BIGINT", nullable=False)]
REGION_TYPES = [DataType("VARCHAR", nullable=False, length=10)]
_numbers = itertools.count(1)


def make_table(
    root: Path | str, options: Mapping[str, str] | None = None, partition_by: Sequence[str] = ()
) -> TablePaths:
    """A table with the key `id` (and `region`, when that is the partition column), and 4 buckets."""
    schema = new_schema(
        pa.schema([("id", pa.int64()), ("region", pa.string()), ("v", pa.string())]),
        primary_key=("id", *partition_by),
        partition_by=partition_by,
        options={"bucket": "4", "merge-engine": "partial-update", **(options or {})},
    )
    paths = TablePaths(str(root))
    assert SchemaStore(LocalFileIO(fsync=False), paths).publish(schema)
    return paths


def alter(paths: TablePaths, schema: TableSchema) -> None:
    """Publish the next schema."""
    assert SchemaStore(LocalFileIO(fsync=False), paths).publish(schema)


def committer(paths: TablePaths, file_io: FileIO | None = None) -> Committer:
    return Committer(file_io or LocalFileIO(fsync=False), paths)


def region(name: str | None) -> bytes:
    """The partition of that region."""
    return row_of([name], REGION_TYPES)


def key(id: int) -> bytes:
    return row_of([id], KEY_TYPES)


def data_file(
    name: str | None = None,
    *,
    low: int = 0,
    high: int = 9,
    level: int = 0,
    rows: int = 10,
    sequence: int | None = None,
) -> DataFileMeta:
    """Keys from low to high. Without a sequence number each file gets the next one."""
    number = next(_numbers) if sequence is None else sequence
    stats = Stats(key(low), key(high), (0,))
    return DataFileMeta(
        name or f"data-{uuid.uuid4()}-0.parquet",
        1000,
        rows,
        key(low),
        key(high),
        stats,
        EMPTY_STATS,
        number,
        number,
        0,
        level,
        delete_row_count=0,
        file_source=FILE_SOURCE_APPEND,
        value_stats_cols=(),
    )


def written(
    *files: DataFileMeta, bucket: int = 0, partition: bytes = EMPTY_ROW, total: int = 4
) -> CommitMessage:
    """A writer's message; one new file when none is named."""
    return CommitMessage(
        partition, bucket, total, new_files=files or (data_file(),), columns=frozenset()
    )


def compacted(
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    bucket: int = 0,
    partition: bytes = EMPTY_ROW,
    total: int = 4,
) -> CommitMessage:
    return CommitMessage(
        partition, bucket, total, compact_before=tuple(before), compact_after=tuple(after)
    )


def added(
    file: DataFileMeta, bucket: int = 0, partition: bytes = EMPTY_ROW, total: int = 4
) -> ManifestEntry:
    return ManifestEntry(ADD, partition, bucket, total, file)


def deleted(
    file: DataFileMeta, bucket: int = 0, partition: bytes = EMPTY_ROW, total: int = 4
) -> ManifestEntry:
    return ManifestEntry(DELETE, partition, bucket, total, file)


def live_names(table: Committer) -> list[str]:
    """Names of the live files of the newest snapshot, sorted; a file at two places stands there twice."""
    entries = table.live_files.live_entries(table.snapshots.latest())
    return sorted(entry.file.file_name for entry in entries)


def metadata_files(paths: TablePaths) -> set[str]:
    return {entry.name for entry in LocalFileIO().list(paths.manifest_dir)}


def named_metadata_files(table: Committer) -> set[str]:
    """Every manifest and list that some snapshot needs."""
    names = set()
    for id in table.snapshots.ids():
        snapshot = table.snapshots.load(id)
        names |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        names |= {meta.file_name for meta in table.live_files.manifests(snapshot)}
    return names
