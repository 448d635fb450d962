"""A cache of decoded manifests, manifest lists and index manifests, by full path, with a byte budget.

The files are immutable and their names are never reused, so an entry cannot be stale. The least recently used entries
are evicted first. Every commit leaves entries that are not needed again, and a table needs few at a time because
manifests are merged. So the number of entries is bounded, too: otherwise a process that writes small commits would fill
its budget with them. Thread-safe. Raises nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.deletion_vector import DeletedRows
from widetable.format.index_manifest import IndexEntry
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta
from widetable.runtime.derived_value import derived_value
from widetable.runtime.forked_child import SharedByThreads
from widetable.storage.paths import TablePaths

DEFAULT_BUDGET_BYTES: Final = 256 << 20
MAX_HELD: Final = 2048
# Bytes of the Python objects of one decoded entry (test_live_files.py), or one line of a list, besides the bytes of
# keys and stats. Stats are counted for each entry that has them, although the reader shares equal ones.
_ENTRY_BYTES: Final = 600
_META_BYTES: Final = 800


class DecodedManifest:
    """The entries of one manifest, in file order, and by bucket (computed at the first access).

    file_bytes: of the manifest. buckets, levels: smallest and largest of the entries, None without any.
    """

    def __init__(self, entries: Iterable[ManifestEntry], file_bytes: int) -> None:
        self.entries = tuple(entries)
        self.file_bytes: Final = file_bytes
        self.added: Final = sum(entry.kind == ADD for entry in self.entries)
        self.buckets: Final = _range(entry.bucket for entry in self.entries)
        self.levels: Final = _range(entry.file.level for entry in self.entries)

    @property
    def deleted(self) -> int:
        """The number of DELETE entries."""
        return len(self.entries) - self.added

    @derived_value
    def by_bucket(self) -> Mapping[BucketId, list[ManifestEntry]]:
        """The entries of each bucket, in file order."""
        return by_bucket(self.entries)

    @property
    def size_bytes(self) -> int:
        """The estimated size in memory."""
        files = [entry.file for entry in self.entries]
        stats = [file.key_stats for file in files] + [file.value_stats for file in files]
        keys_bytes = sum(len(file.min_key) + len(file.max_key) for file in files)
        stats_bytes = sum(
            len(each.min_values) + len(each.max_values) + 8 * len(each.null_counts)
            for each in stats
        )
        return _ENTRY_BYTES * len(files) + keys_bytes + stats_bytes


class DecodedList:
    """The lines of one manifest list, in file order. file_bytes: of the list."""

    def __init__(self, metas: Iterable[ManifestFileMeta], file_bytes: int) -> None:
        self.metas = tuple(metas)
        self.file_bytes: Final = file_bytes

    @property
    def size_bytes(self) -> int:
        return _META_BYTES * len(self.metas)


class DecodedIndex:
    """The entries of one index manifest, in file order. deleted_rows: by the name of the data file. file_bytes: of the
    manifest.
    """

    def __init__(self, entries: Iterable[IndexEntry], file_bytes: int, paths: TablePaths) -> None:
        self.entries = tuple(entries)
        self.file_bytes: Final = file_bytes
        self.deleted_rows: Final = {
            vector.data_file: DeletedRows(
                paths.index(entry.file_name), vector.start, vector.length, vector.rows
            )
            for entry in self.entries
            for vector in entry.vectors
        }

    @property
    def size_bytes(self) -> int:
        return _META_BYTES * (len(self.entries) + len(self.deleted_rows))


Decoded: TypeAlias = DecodedManifest | DecodedList | DecodedIndex


class ManifestCache(SharedByThreads):
    """A map from path to decoded file, bounded by `budget_bytes` and MAX_HELD."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        super().__init__()

    def _reset(self) -> None:
        self._held: OrderedDict[str, tuple[Decoded, int]] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def get(self, path: str) -> Decoded | None:
        with self._lock:
            entry = self._held.get(path)
            if entry is None:
                return None
            self._held.move_to_end(path)
            return entry[0]

    def put(self, path: str, decoded: Decoded) -> None:
        """Add a decoded file, unless it is larger than the whole budget."""
        size_bytes = decoded.size_bytes
        with self._lock:
            if path in self._held or size_bytes > self._budget_bytes:
                return
            self._held[path] = (decoded, size_bytes)
            self._size_bytes += size_bytes
            while self._size_bytes > self._budget_bytes or len(self._held) > MAX_HELD:
                _, (_, freed) = self._held.popitem(last=False)
                self._size_bytes -= freed

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._size_bytes = 0


def _range(numbers: Iterable[int]) -> tuple[int, int] | None:
    values = list(numbers)
    return (min(values), max(values)) if values else None


# Shared by all tables of the process: the budget is the process's.
MANIFEST_CACHE: Final = ManifestCache()
