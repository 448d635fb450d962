"""The live data files of a snapshot, read from its manifest lists and their manifests.

Source: Paimon `AbstractFileStoreScan`, `FileEntry.mergeEntries`; format.md sections 3 and 4. Live files are the entries
of the base list, then of the delta list; each DELETE cancels the ADD before it:

    base list      manifest 1    + a, level 0    + b, level 0
    delta list     manifest 2    - a, level 0    + a, level 5       a file that moved: the same name, another identity
    live                         + b, level 0    + a, level 5

A manifest is not read if its list shows that it has no requested partition or bucket. The index manifest has the
position of each deletion vector. All files that are read are compared with what is recorded of them (`file_checks`).
Raises NotFoundError if the snapshot has expired, DamagedError for bytes that are no manifest or not the recorded one,
and for a missing manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, TypeVar

from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.file_checks import (
    check_manifest,
    check_name,
    check_rows,
    check_size,
)
from widetable.commit.snapshots.manifest_cache import (
    MANIFEST_CACHE,
    DecodedIndex,
    DecodedList,
    DecodedManifest,
    ManifestCache,
)
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, NotFoundError
from widetable.format.binary_row import decode_row
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import DeletedRows
from widetable.format.index_manifest import IndexEntry, read_index_manifest
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry, combine
from widetable.format.manifest_file import ManifestFileMeta, read_manifest
from widetable.format.manifest_list import read_manifest_list
from widetable.format.plain_value import value_order
from widetable.format.snapshot import Snapshot
from widetable.messages.error_code import ErrorCode
from widetable.schema.types import DataType
from widetable.storage.file_io import FileIO
from widetable.storage.paths import POSTPONED, TablePaths

D = TypeVar("D", DecodedIndex, DecodedList, DecodedManifest)
Partitions = frozenset[bytes]
Buckets = frozenset[int]
ManifestFilter = Callable[[ManifestFileMeta], bool]


@dataclass(frozen=True, eq=False, repr=False)
class LiveFiles:
    """Reads the live files of the snapshots of a table. Threads may share it. A pickle leaves out the cache.

    partition_types: of the partition columns, in their order; none for unpartitioned tables. cache: of decoded files,
    by path, shared by all tables of the process. counted: whether counts of files and rows are compared.
    """

    file_io: FileIO
    paths: TablePaths
    partition_types: Sequence[DataType]
    cache: ManifestCache = MANIFEST_CACHE
    counted: bool = field(default=True, kw_only=True)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "cache"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a pickle with the cache of this process."""
        self.__dict__.update(state, cache=MANIFEST_CACHE)

    def uncached(self) -> LiveFiles:
        """Return a copy with an empty cache, to look for damage: each manifest is read again, once."""
        return replace(self, cache=ManifestCache())

    def uncounted(self) -> LiveFiles:
        """Return an uncached copy that does not compare counts, for an audit, which reports wrong counts itself."""
        return replace(self.uncached(), counted=False)

    def of_branch(self, paths: TablePaths) -> LiveFiles:
        """Return a copy for snapshots of another branch."""
        return replace(self, paths=paths)

    def live_entries(
        self,
        snapshot: Snapshot | None,
        partitions: Partitions | None = None,
        buckets: Buckets | None = None,
        manifest_filter: ManifestFilter | None = None,
    ) -> list[ManifestEntry]:
        """Return the ADD entries that are live at `snapshot` (None: no snapshot yet, no entries), oldest first.

        partitions, buckets: only these (both given: their combinations); None: all. manifest_filter: False for
        manifests that have no entry for the caller, by their partition stats; entries of other manifests are not
        filtered by it. With partitions or buckets the entries are in order of time only within each bucket. The rows
        are compared with the snapshot's count only if all manifests are read.
        """
        if snapshot is None:
            return []
        may_hold = manifest_pruner(self.partition_types, partitions, buckets)
        entries: list[ManifestEntry] = []
        for meta in self.manifests(snapshot):
            if may_hold(meta) and (manifest_filter is None or manifest_filter(meta)):
                entries.extend(_selected(self.manifest(meta, snapshot), partitions, buckets))
        left = live(entries)
        if self.counted and partitions is None and buckets is None and manifest_filter is None:
            check_rows(snapshot, "live", left, snapshot.total_record_count)
        return self._marked(left, snapshot)

    def index(self, snapshot: Snapshot | None) -> tuple[IndexEntry, ...]:
        """Return the entries of a snapshot's index manifest; empty without one."""
        if snapshot is None or snapshot.index_manifest is None:
            return ()
        return self._index(snapshot.index_manifest, snapshot).entries

    def marked(self, files: Iterable[DataFileMeta], snapshot: Snapshot) -> tuple[DataFileMeta, ...]:
        """Return files of a snapshot with the positions of their deletion vectors from its index."""
        if snapshot.index_manifest is None:
            return tuple(files)
        deleted = self._deleted_rows(snapshot)
        return tuple(file._replace(deleted=deleted.get(file.file_name)) for file in files)

    def _marked(self, entries: list[ManifestEntry], snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the entries with the positions of their deletion vectors."""
        if not self._deleted_rows(snapshot):
            return entries
        files = self.marked((entry.file for entry in entries), snapshot)
        return [entry._replace(file=file) for entry, file in zip(entries, files, strict=True)]

    def _deleted_rows(self, snapshot: Snapshot) -> Mapping[str, DeletedRows]:
        """Return the rows that deletion vectors mark, by data file."""
        if snapshot.index_manifest is None:
            return {}
        return self._index(snapshot.index_manifest, snapshot).deleted_rows

    def _index(self, name: str, snapshot: Snapshot) -> DecodedIndex:
        return self._decoded(name, snapshot, DecodedIndex, read_index_manifest, self.paths)

    def bucket_count(self, snapshot: Snapshot | None, partition: bytes) -> int | None:
        """Return the number of buckets of a partition, which may differ from the table's; None if it has no files in
        buckets.
        """
        entries = self.live_entries(snapshot, frozenset([partition]))
        return next((e.total_buckets for e in entries if e.bucket != POSTPONED), None)

    def delta_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the entries that this snapshot added and deleted, in order."""
        entries = self._entries(snapshot.delta_manifest_list, snapshot)
        if self.counted:
            check_rows(snapshot, "added less deleted", entries, snapshot.delta_record_count)
        return entries

    def remarked_entries(self, before: Snapshot, after: Snapshot) -> list[ManifestEntry]:
        """Return the files that are live at `after` and whose deletion vectors differ from those at `before`, without
        these: all of their rows count.
        """
        if before.index_manifest == after.index_manifest:
            return []
        old, new = self._deleted_rows(before), self._deleted_rows(after)
        names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        if not names:
            return []
        entries = [entry for entry in self.live_entries(after) if entry.file.file_name in names]
        return [entry._replace(file=entry.file._replace(deleted=None)) for entry in entries]

    def changelog_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the changelog files of this snapshot, in order; empty without a changelog."""
        if snapshot.changelog_manifest_list is None:
            return []
        entries = self._entries(snapshot.changelog_manifest_list, snapshot)
        if self.counted:
            check_rows(snapshot, "changelog", entries, snapshot.changelog_record_count)
        return entries

    def _entries(self, list_name: str, snapshot: Snapshot) -> list[ManifestEntry]:
        metas = self.manifest_list(list_name, snapshot)
        return [entry for meta in metas for entry in self.manifest(meta, snapshot).entries]

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """Return all manifests of a snapshot in order: the base list of the next one, before any are merged."""
        base = self.manifest_list(snapshot.base_manifest_list, snapshot)
        return base + self.manifest_list(snapshot.delta_manifest_list, snapshot)

    def manifest_list(self, name: str, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """Return the manifests in a list of the snapshot, in order.

        The size of the list is checked each time against this snapshot, as another one may have cached it.
        """
        decoded = self._decoded(name, snapshot, DecodedList, read_manifest_list)
        size_bytes = snapshot.list_bytes.get(name)
        if size_bytes is not None:
            check_size(self.paths.manifest(name), decoded, size_bytes, f"snapshot {snapshot.id}")
        return decoded.metas

    def manifest(self, meta: ManifestFileMeta, snapshot: Snapshot) -> DecodedManifest:
        """Return a decoded manifest, checked against its line in the list. snapshot: the one that names the list."""
        path = self.paths.manifest(meta.file_name)
        decoded = self._decoded(meta.file_name, snapshot, DecodedManifest, read_manifest)
        check_size(path, decoded, meta.file_size, "its list")
        if self.counted:
            check_manifest(path, decoded, meta)
        return decoded

    def _decoded(
        self,
        name: str,
        snapshot: Snapshot,
        kind: type[D],
        read: Callable[[bytes, str], Iterable[Any]],
        *more: TablePaths,
    ) -> D:
        """Return a decoded file that the snapshot names, from the cache if possible. more: arguments of `kind`."""
        path = self.paths.manifest(name)
        decoded = self.cache.get(path)
        if not isinstance(decoded, kind):
            data = self._read(path, snapshot)
            decoded = kind(read(data, path), len(data), *more)
            self.cache.put(path, decoded)
        return decoded

    def _read(self, path: str, snapshot: Snapshot) -> bytes:
        """Read a manifest or list. If it is missing, the snapshot has expired (its own file is gone, too, or is that of
        another snapshot), or it is damaged.
        """
        try:
            data = self.file_io.read(path)
        except NotFoundError as cause:
            if not self._is_kept(snapshot):
                raise NotFoundError(
                    self.paths.snapshot(snapshot.id),
                    found="an expired snapshot",
                    expected="a snapshot that is still kept",
                    action="Read a newer snapshot, or a tag; restart a stream with a new checkpoint.",
                    code=ErrorCode.SNAPSHOT_EXPIRED,
                ) from cause
            raise DamagedError(
                path,
                found="no such file",
                expected=f"a file that snapshot {snapshot.id} names",
                action="Restore the file, or go back to an older snapshot.",
                code=ErrorCode.METADATA_DAMAGED,
            ) from cause
        check_name(path, data)
        return data

    def _is_kept(self, snapshot: Snapshot) -> bool:
        """Return whether the file of that id is still of the snapshot: a table that is made again reuses ids, and so
        does one that was rolled back. Lists have names of their own.
        """
        kept = or_none(SnapshotStore(self.file_io, self.paths).load, snapshot.id)
        return kept is not None and _lists(kept) == _lists(snapshot)


def _lists(snapshot: Snapshot) -> tuple[str, str]:
    return snapshot.base_manifest_list, snapshot.delta_manifest_list


def live(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Return the ADD entries that no later entry deletes, in order. Raises DamagedError for a file that is added twice.

    The result is that of `combine` without its remaining deletes; only files that an entry deletes are compared by
    their whole identity.
    """
    deleted = {entry.file.file_name for entry in entries if entry.kind == DELETE}
    plain_names = [entry.file.file_name for entry in entries if entry.file.file_name not in deleted]
    if len(set(plain_names)) < len(plain_names):
        combine(entries)
    touched = combine(entry for entry in entries if entry.file.file_name in deleted)
    left = {id(entry) for entry in touched if entry.kind == ADD}
    return [entry for entry in entries if entry.file.file_name not in deleted or id(entry) in left]


def manifest_pruner(
    partition_types: Sequence[DataType], partitions: Partitions | None, buckets: Buckets | None
) -> ManifestFilter:
    """Return a filter that is False only for manifests without entries of these partitions and buckets.

    A manifest with partitions "at" to "de" and buckets 0 to 2 may have entries of "be", but none of "fr", and none of
    "be" in bucket 3. For an empty set of partitions the filter is False for all manifests.
    """
    rows = None if partitions is None else [decode_row(row, partition_types) for row in partitions]
    lowest, highest = (min(buckets), max(buckets)) if buckets else (0, -1)

    def may_hold(meta: ManifestFileMeta) -> bool:
        if buckets is not None and not _bucket_ranges_meet(meta, lowest, highest):
            return False
        if rows is None or not partition_types:
            return rows is None or bool(rows)
        return _any_in_range(meta, rows, partition_types)

    return may_hold


def _bucket_ranges_meet(meta: ManifestFileMeta, lowest: int, highest: int) -> bool:
    """Return whether a manifest may have buckets of this range; True if its list does not record its buckets."""
    if meta.min_bucket is None or meta.max_bucket is None:
        return True
    return meta.min_bucket <= highest and lowest <= meta.max_bucket


def _any_in_range(
    meta: ManifestFileMeta, rows: Iterable[tuple[Any, ...]], types: Sequence[DataType]
) -> bool:
    """Return whether one of these partitions may be in a manifest; a column without stats may have any value."""
    stats = meta.partition_stats
    if int.from_bytes(stats.min_values[:4], "big") != len(types):
        return True
    entries = meta.num_added_files + meta.num_deleted_files
    bounds = list(
        zip(
            decode_row(stats.min_values, types, meta.file_name),
            decode_row(stats.max_values, types, meta.file_name),
            chain(stats.null_counts, repeat(None)),
            map(value_order, types),
            strict=False,
        )
    )

    def may_be(row: tuple[Any, ...]) -> bool:
        for value, (low, high, nulls, order) in zip(row, bounds, strict=True):
            if value is None:
                excluded = nulls == 0
            elif low is None or high is None:
                excluded = nulls == entries
            else:
                excluded = not order(low) <= order(value) <= order(high)
            if excluded:
                return False
        return True

    return any(may_be(row) for row in rows)


def _selected(
    manifest: DecodedManifest, partitions: Partitions | None, buckets: Buckets | None
) -> Iterable[ManifestEntry]:
    """Return the entries of these partitions and buckets.

    Looks up the requested buckets one by one, or goes through those of the manifest, whichever are fewer.
    """
    if partitions is None and buckets is None:
        return manifest.entries
    grouped = manifest.by_bucket
    if (
        partitions is not None
        and buckets is not None
        and len(partitions) * len(buckets) < len(grouped)
    ):
        keys = [BucketId(partition, bucket) for partition in partitions for bucket in buckets]
    else:
        keys = [
            key
            for key in grouped
            if (partitions is None or key.partition in partitions)
            and (buckets is None or key.number in buckets)
        ]
    return [entry for key in keys for entry in grouped.get(key, ())]
