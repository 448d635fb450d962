"""The hash indexes of a table with dynamic buckets: what each bucket has, and what a commit makes of it.

In: the entries of index manifests, and the new hashes of commit messages. Out: hashes by bucket, and the next
entries. A key is in one bucket only, so a commit that puts one where another bucket has it is refused: two writers
have put it into two. Source: Paimon `IndexFileHandler`, `IndexManifestFileHandler`. Raises ConflictError, DamagedError,
NotFoundError and StorageError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from widetable.commit.manifest_writer import ManifestWriter
from widetable.errors import ConflictError
from widetable.format.bucket_id import BucketId
from widetable.format.hash_index import read_hash_index, write_hash_index
from widetable.format.index_manifest import HASH, IndexEntry
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

    def of_partition(self, entries: Iterable[IndexEntry], partition: bytes) -> dict[int, Hashes]:
        """By bucket, the hashes that the index files of a partition have, ascending. entries: of a snapshot."""
        return {
            entry.bucket.number: self._hashes(entry)
            for entry in entries
            if entry.kind == HASH and entry.bucket.partition == partition
        }

    def next_entries(
        self,
        entries: Iterable[IndexEntry],
        new: Mapping[BucketId, bytes],
        writer: ManifestWriter,
    ) -> list[IndexEntry]:
        """The entries with these hashes added. Raises ConflictError where another bucket has one."""
        others = [entry for entry in entries if entry.kind != HASH]
        indexes = {entry.bucket: entry for entry in entries if entry.kind == HASH}
        for bucket, data in new.items():
            hashes = read_hash_index(data, "commit message")
            for other, entry in indexes.items():
                if other.partition == bucket.partition and other != bucket:
                    self._check_apart(hashes, other, self._hashes(entry))
            before = indexes.get(bucket)
            if before is not None:
                hashes = np.union1d(hashes, self._hashes(before))
            name, size_bytes = writer.index_file(write_hash_index(hashes))
            indexes[bucket] = IndexEntry(bucket, HASH, name, size_bytes, len(hashes))
            self._keep(name, hashes)
        named = {entry.file_name for entry in indexes.values()}
        self._kept = {name: hashes for name, hashes in self._kept.items() if name in named}
        return [*others, *indexes.values()]

    def _check_apart(self, hashes: Hashes, other: BucketId, others: Hashes) -> None:
        count = int(np.isin(hashes, others, assume_unique=True).sum())
        if count:
            raise ConflictError(
                self._paths.root,
                found=f"{count} new keys that another commit has put into bucket {other.number} meanwhile",
                expected="one writer at a time, as buckets are dynamic",
                action="Write the rows again; let one writer follow the other.",
            )

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
