"""Arrow tables of the files of one snapshot: data files, manifests, partitions and buckets.

Sizes are bytes, `rows` are rows of files: not merged, and including deletes. A partition has the name of its
directory (`dt=1/hour=2`); the only partition of a table without partitions is the empty text. Live files are read from
manifests column by column.

    path        <table>/dt=1 x/h=2/bucket-1/data-<uuid>-0.parquet
    partition   dt=1 x/h=2
    min_key     a=1, b="x'y"           numbers in decimal, other values as Python writes them

Without a choice the newest snapshot is read, and a newer one if it expires meanwhile;
a chosen one that expires raises. The schema is always the newest one. Raises what reading
snapshots and manifests raises, UnsupportedError for an unknown merge engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.format.binary_row import decode_row
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, FILE_SOURCE_COMPACT, DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta
from widetable.format.partition_value import partition_texts, shown_texts
from widetable.format.plain_value import plain_column
from widetable.format.printed_value import printed
from widetable.format.snapshot import Snapshot
from widetable.lsm.bucket_plan import Scope
from widetable.lsm.table_kind import kind_of
from widetable.operations.compaction.compaction_cut import entries_up_to, last_cut
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import choose_snapshot
from widetable.operations.inspection.inspected_frame import (
    frame_of_columns,
    frame_of_rows,
    frame_schema,
)
from widetable.operations.inspection.table_measures import sorted_runs
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import partition_directory

_SOURCES: Final[dict[int | None, str]] = {
    FILE_SOURCE_APPEND: "append",
    FILE_SOURCE_COMPACT: "compact",
}
FILES: Final = frame_schema(
    "partition string, bucket int32, total_buckets int32, level int32, file_name string, path string, "
    "format string, size_bytes int64, rows int64, delete_records int64?, deleted_rows int64?, schema_id int64, "
    "min_key string?, max_key string?, min_sequence_number int64, max_sequence_number int64, "
    "creation_time local_time?, source string?, write_columns list?"
)
MANIFESTS: Final = frame_schema(
    "list string, file_name string, size_bytes int64, added_files int64, deleted_files int64, schema_id int64, "
    "min_bucket int32?, max_bucket int32?, min_level int32?, max_level int32?"
)
PARTITIONS: Final = frame_schema(
    "partition string, total_buckets int32, buckets int64, files int64, rows int64, size_bytes int64, "
    "deleted_rows int64?, newest_file_time local_time?"
)
LEVEL: Final = pa.struct(
    list(frame_schema("level int32?, files int64?, rows int64?, size_bytes int64?"))
)
BUCKETS: Final = frame_schema(
    "partition string, bucket int32, total_buckets int32, files int64, rows int64, size_bytes int64, "
    "deleted_rows int64?, runs int64?, level0_files int64, levels levels, due_files int64?, due_bytes int64?",
    levels=pa.list_(LEVEL),
)
# (snapshot id, tag): at most one is set; none means the newest snapshot.
Choice = tuple[int | None, str | None]


def files(table: OpenTable, choice: Choice) -> pa.Table:
    """List live files in the order of manifests.

    delete_records: how many rows are deletes. deleted_rows: how many rows a deletion vector deletes, null if its index
    does not say. Keys look like `a=1, b='x'`, without partition columns.
    """
    schema, entries = live_at(table, choice)
    return frame_of_columns(FILES, _file_columns(table, schema, entries), table.path)


def _file_columns(
    table: OpenTable, schema: TableSchema, entries: Sequence[ManifestEntry]
) -> Iterator[Any]:
    """Yield the columns in the order of `FILES`, one at a time, so that only one is in memory as Python values."""
    metas = [entry.file for entry in entries]
    partition, directory = partition_names(schema), _directory_of(table, schema)
    yield [partition(entry.partition) for entry in entries]
    yield [entry.bucket for entry in entries]
    yield [entry.total_buckets for entry in entries]
    yield [file.level for file in metas]
    yield [file.file_name for file in metas]
    yield [
        file.external_path or f"{directory(entry.partition, entry.bucket)}/{file.file_name}"
        for entry, file in zip(entries, metas, strict=True)
    ]
    yield [file.file_name.rpartition(".")[2] for file in metas]
    yield [file.file_size for file in metas]
    yield [file.row_count for file in metas]
    yield [file.delete_row_count for file in metas]
    yield [_deleted(file) for file in metas]
    yield [file.schema_id for file in metas]
    yield _keys(schema, [file.min_key for file in metas])
    yield _keys(schema, [file.max_key for file in metas])
    yield [file.min_sequence_number for file in metas]
    yield [file.max_sequence_number for file in metas]
    yield [file.creation_time_millis for file in metas]
    yield [_SOURCES.get(file.file_source) for file in metas]
    yield [file.write_cols for file in metas]


def manifests(table: OpenTable, choice: Choice) -> pa.Table:
    """List manifests of the base, delta and changelog lists, in that order.

    Buckets and levels are null if the writer did not state them. added_files, deleted_files: entries of the manifest,
    which may undo those of others; only the base and the delta together say which files are live.
    """
    snapshot = _chosen(table, choice)
    rows = [] if snapshot is None else list(_manifests(table, snapshot))
    return frame_of_rows(MANIFESTS, rows, table.path)


def _manifests(table: OpenTable, snapshot: Snapshot) -> Iterator[tuple[Any, ...]]:
    lists = {
        "base": snapshot.base_manifest_list,
        "delta": snapshot.delta_manifest_list,
        "changelog": snapshot.changelog_manifest_list,
    }
    for kind, name in lists.items():
        if name is not None:
            for meta in table._committer.live_files.manifest_list(name, snapshot):
                yield kind, *_manifest_row(meta)


def _manifest_row(meta: ManifestFileMeta) -> tuple[Any, ...]:
    counts = meta.file_size, meta.num_added_files, meta.num_deleted_files, meta.schema_id
    return meta.file_name, *counts, meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level


def partitions(table: OpenTable, choice: Choice) -> pa.Table:
    """List partitions that have files, by their names.

    buckets: how many have files. newest_file_time: wall clock of its writer, null if no file states it. deleted_rows:
    null if the number of one file is unknown.
    """
    schema, entries = live_at(table, choice)
    by_partition: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        by_partition.setdefault(entry.partition, []).append(entry)
    text = partition_names(schema)
    rows = [
        (
            text(partition),
            max(entry.total_buckets for entry in members),
            len({entry.bucket for entry in members}),
            *_sums([entry.file for entry in members]),
            max(filter(None, (entry.file.creation_time_millis for entry in members)), default=None),
        )
        for partition, members in by_partition.items()
    ]
    return frame_of_rows(PARTITIONS, sorted(rows, key=lambda row: row[0]), table.path)


def buckets(table: OpenTable, choice: Choice) -> pa.Table:
    """List buckets that have files, by partition and number.

    runs: how many sorted runs a read merges at most; null in append tables. due_files, due_bytes: what a compaction
    would take next by the options of the table. All three are null for rows that wait for a bucket.
    """
    schema, snapshot, entries = _live_at(table, choice)
    text = partition_names(schema)
    state, committer = table._state(schema), table._committer
    last = last_cut(state, committer, snapshot)
    taken = by_bucket(entries_up_to(state, committer, snapshot, entries, last))
    rows = [
        (
            text(bucket.partition),
            bucket.number,
            members[0].total_buckets,
            *_bucket(schema, bucket, members, taken.get(bucket, ())),
        )
        for bucket, members in by_bucket(entries).items()
    ]
    return frame_of_rows(BUCKETS, sorted(rows, key=lambda row: (row[0], row[1])), table.path)


def _bucket(
    schema: TableSchema,
    bucket: BucketId,
    entries: Sequence[ManifestEntry],
    taken: Sequence[ManifestEntry],
) -> Iterator[Any]:
    """Yield the columns after `total_buckets`.

    taken: the entries that a compaction may take. Under barriers, files of incomplete barriers are not due.
    """
    metas = [entry.file for entry in entries]
    by_level: dict[int, list[DataFileMeta]] = {}
    for file in metas:
        by_level.setdefault(file.level, []).append(file)
    yield from _sums(metas)
    runs = sorted_runs(schema, bucket, metas)
    yield runs
    yield len(by_level.get(0, ()))
    yield [
        dict(zip((field.name for field in LEVEL), (level, *_sums(files)), strict=False))
        for level, files in sorted(by_level.items())
    ]
    if bucket.number < 0:
        yield from (None, None)
        return
    files = [entry.file for entry in taken]
    plan = kind_of(schema).plan(schema, files, Scope.DUE)
    due = {file.file_name: file.file_size for step in plan for file in step.files}
    yield from (len(due), sum(due.values()))


def _sums(files: Sequence[DataFileMeta]) -> tuple[int, int, int, int | None]:
    """Return (files, rows, size_bytes, deleted_rows)."""
    deleted = [_deleted(file) for file in files]
    counts = [rows for rows in deleted if rows is not None]
    return (
        len(files),
        sum(file.row_count for file in files),
        sum(file.file_size for file in files),
        sum(counts) if len(counts) == len(deleted) else None,
    )


def _deleted(file: DataFileMeta) -> int | None:
    """Return how many rows its deletion vector deletes; None if the index that lists the vector does not say."""
    return 0 if file.deleted is None else file.deleted.rows


def live_at(table: OpenTable, choice: Choice) -> tuple[TableSchema, list[ManifestEntry]]:
    """Return the newest schema, and the live files of a snapshot."""
    schema, _, entries = _live_at(table, choice)
    return schema, entries


def _live_at(
    table: OpenTable, choice: Choice
) -> tuple[TableSchema, Snapshot | None, list[ManifestEntry]]:
    """Return the newest schema, the snapshot, and its live files."""
    if all(part is None for part in choice):
        return table.schema, *newest_files(table._committer)
    snapshot = _chosen(table, choice)
    return table.schema, snapshot, table._committer.live_files.live_entries(snapshot)


def _chosen(table: OpenTable, choice: Choice) -> Snapshot | None:
    snapshot_id, tag = choice
    with table._same_table():
        return choose_snapshot(table._committer.snapshots, table._tags, snapshot_id, None, tag)


def partition_names(schema: TableSchema) -> Callable[[bytes], str]:
    """Return a function from the BinaryRow of a partition to its name. Names are cached, because a table has many more
    files than partitions.
    """

    @cache
    def text(partition: bytes) -> str:
        texts = shown_texts(partition, schema)
        return "/".join(partition_directory(name, value) for name, value in texts)

    return text


def _directory_of(table: OpenTable, schema: TableSchema) -> Callable[[bytes, int], str]:
    @cache
    def directory(partition: bytes, bucket: int) -> str:
        return table._paths.bucket_dir(partition_texts(partition, schema), bucket)

    return directory


def _keys(schema: TableSchema, rows: Sequence[bytes]) -> pa.Array | list[None]:
    """Return the keys of the files as texts; null for append tables."""
    names = schema.trimmed_primary_key
    if not names or not rows:
        return [None] * len(rows)
    types = [schema.field(name).type for name in names]
    decoded = zip(*(decode_row(row, types) for row in rows), strict=True)
    parts = [
        pc.binary_join_element_wise(f"{name}=", _key_texts(plain_column(values, kind)), "")
        for name, values, kind in zip(names, decoded, types, strict=True)
    ]
    return pc.binary_join_element_wise(*parts, ", ")


def _key_texts(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type):
        return column.cast(pa.string())
    return pa.array(map(repr, printed(column)), pa.string())
