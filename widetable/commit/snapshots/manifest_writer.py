"""Writes manifests and manifest lists, and keeps track of the files that one commit has written.

In: entries or metas; out: the files, durable, under new names that include a digest of their bytes (format.md
section 4). The decoded files are also cached: the next commit of this process need not read them. Raises StorageError;
`discard` raises nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from widetable.commit.snapshots.manifest_cache import (
    MANIFEST_CACHE,
    DecodedList,
    DecodedManifest,
    ManifestCache,
)
from widetable.format.binary_row import decode_row, encode_row
from widetable.format.column_stats import EMPTY_STATS, Stats
from widetable.format.index_manifest import IndexEntry, write_index_manifest
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta, write_manifest
from widetable.format.manifest_list import write_manifest_list
from widetable.format.plain_value import value_order
from widetable.schema.types import DataType
from widetable.storage.file_io import FileIO
from widetable.storage.leftover import delete_leftover
from widetable.storage.paths import TablePaths, content_name, new_file_name


@dataclass(frozen=True, eq=False)
class ManifestWriter:
    """The writer of one commit. The files are in `written` until the snapshot that names them is published."""

    file_io: FileIO
    paths: TablePaths
    partition_types: Sequence[DataType]
    schema_id: int
    cache: ManifestCache = MANIFEST_CACHE
    written: set[str] = field(default_factory=set, init=False)

    def manifest(self, entries: Sequence[ManifestEntry]) -> ManifestFileMeta:
        """Write a manifest of these entries, at least one."""
        name, size_bytes = self._write("manifest", write_manifest(entries))
        decoded = DecodedManifest(entries, size_bytes)
        self.cache.put(self.paths.manifest(name), decoded)
        return summarize(name, decoded, self.schema_id, self.partition_types)

    def manifest_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list; return its name and size in bytes."""
        name, size_bytes = self._write("manifest-list", write_manifest_list(metas))
        self.cache.put(self.paths.manifest(name), DecodedList(metas, size_bytes))
        return name, size_bytes

    def index_file(self, data: bytes) -> tuple[str, int]:
        """Write an index file; return its name and size in bytes."""
        name = new_file_name("index")
        self.written.add(name)
        self.file_io.write_new(self.paths.index(name), data)
        return name, len(data)

    def index_manifest(self, entries: Iterable[IndexEntry]) -> str:
        """Write an index manifest; return its name."""
        return self._write("index-manifest", write_index_manifest(entries))[0]

    def discard(self, names: Iterable[str] | None = None) -> None:
        """Delete files that no snapshot names, by default all of this commit; files that cannot be deleted stay as
        orphans.
        """
        for name in list(self.written if names is None else names):
            is_index = name.startswith("index-") and not name.startswith("index-manifest-")
            place = self.paths.index if is_index else self.paths.manifest
            delete_leftover(self.file_io, place(name))
            self.written.discard(name)

    def _write(self, prefix: str, data: bytes) -> tuple[str, int]:
        name = content_name(prefix, data)
        self.written.add(name)
        self.file_io.write_new(self.paths.manifest(name), data)
        return name, len(data)


def summarize(
    name: str, manifest: DecodedManifest, schema_id: int, partition_types: Sequence[DataType]
) -> ManifestFileMeta:
    """Return the line of a manifest in a list."""
    return ManifestFileMeta(
        name,
        manifest.file_bytes,
        manifest.added,
        manifest.deleted,
        partition_stats(Counter(e.partition for e in manifest.entries), partition_types),
        schema_id,
        *(manifest.buckets or (None, None)),
        *(manifest.levels or (None, None)),
    )


def partition_stats(partitions: Mapping[bytes, int], types: Sequence[DataType]) -> Stats:
    """Return the smallest and largest value per partition column, and how many entries have null.

    partitions: each with its number of entries. For "be", twice "at" and null: "at", "be" and 1.
    """
    if not types:
        return EMPTY_STATS
    rows = [decode_row(partition, types) for partition in partitions]
    columns = list(zip(*rows, strict=True))
    low, high = [], []
    for column, type in zip(columns, types, strict=True):
        low.append(_extreme(min, column, type))
        high.append(_extreme(max, column, type))
    nulls = tuple(
        sum(
            count for value, count in zip(column, partitions.values(), strict=True) if value is None
        )
        for column in columns
    )
    return Stats(encode_row(low, types), encode_row(high, types), nulls)


def _extreme(choose: Callable[..., Any], column: Sequence[Any], type: DataType) -> Any:
    values = [value for value in column if value is not None]
    return choose(values, key=value_order(type)) if values else None
