"""The hash indexes of a table with dynamic buckets: what each bucket has, and what a commit makes of it.

In: index manifests of snapshots, and the new hashes of commit messages. Out: hashes by bucket, and the next index
manifest. A key is in one bucket only, so a commit that puts one where another bucket has it is refused: two writers
have put it into two. Other index files are not understood. Source: Paimon `IndexFileHandler`,
`IndexManifestFileHandler`. Raises ConflictError, UnsupportedError, DamagedError, NotFoundError and StorageError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from widetable.commit.manifest_writer import ManifestWriter
from widetable.errors import ConflictError, UnsupportedError
from widetable.format.bucket_id import BucketId
from widetable.format.hash_index import read_hash_index, write_hash_index
from widetable.format.index_manifest import HASH, IndexEntry, read_index_manifest
from widetable.kernels.bucket_hash import Hashes
from widetable.paths import TablePaths
from widetable.storage.file_io import FileIO

# Of index files that are kept in memory from commit to commit.
_MOST_KEPT_BYTES: Final = 64 << 20


class HashIndexes:
    """For one table; threads may share it: what is kept is replaced, never changed."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._kept: dict[str, Hashes] = {}

    def of_partition(self, manifest: str | None, partition: bytes) -> dict[int, Hashes]:
        """By bucket, the hashes that the index files of a partition have, ascending. manifest: of a snapshot."""
        return {
            entry.bucket.number: self._hashes(entry)
            for entry in self._entries(manifest)
            if entry.bucket.partition == partition
        }

    def next_manifest(
        self, manifest: str | None, new: Mapping[BucketId, bytes], writer: ManifestWriter
    ) -> str:
        """The manifest with these hashes added. Raises ConflictError where another bucket has one."""
        entries = {entry.bucket: entry for entry in self._entries(manifest)}
        for bucket, data in new.items():
            hashes = read_hash_index(data, "commit message")
            for other, entry in entries.items():
                if other.partition == bucket.partition and other != bucket:
                    self._check_apart(hashes, other, self._hashes(entry))
            before = entries.get(bucket)
            if before is not None:
                hashes = np.union1d(hashes, self._hashes(before))
            name, size_bytes = writer.hash_index(write_hash_index(hashes))
            entries[bucket] = IndexEntry(bucket, HASH, name, size_bytes, len(hashes))
            self._keep(name, hashes)
        named = {entry.file_name for entry in entries.values()}
        self._kept = {name: hashes for name, hashes in self._kept.items() if name in named}
        return writer.index_manifest(entries.values())

    def _check_apart(self, hashes: Hashes, other: BucketId, others: Hashes) -> None:
        count = int(np.isin(hashes, others, assume_unique=True).sum())
        if count:
            raise ConflictError(
                self._paths.root,
                found=f"{count} new keys that another commit has put into bucket {other.number} meanwhile",
                expected="one writer at a time, as buckets are dynamic",
                action="Write the rows again; let one writer follow the other.",
            )

    def _entries(self, manifest: str | None) -> list[IndexEntry]:
        if manifest is None:
            return []
        path = self._paths.manifest(manifest)
        entries = read_index_manifest(self._file_io.read(path), path)
        other = next((entry.kind for entry in entries if entry.kind != HASH), None)
        if other is not None:
            raise UnsupportedError(
                path,
                found=f"an index of the kind {other!r}",
                expected=f"indexes of the kind {HASH!r} only",
                action="Write the table with another client.",
            )
        return entries

    def _hashes(self, entry: IndexEntry) -> Hashes:
        found = self._kept.get(entry.file_name)
        if found is None:
            path = self._paths.index(entry.file_name)
            found = read_hash_index(self._file_io.read(path), path)
            self._keep(entry.file_name, found)
        return found

    def _keep(self, name: str, hashes: Hashes) -> None:
        held_bytes = sum(kept.nbytes for kept in self._kept.values())
        if held_bytes + hashes.nbytes <= _MOST_KEPT_BYTES:
            self._kept = {**self._kept, name: hashes}
