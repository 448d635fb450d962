"""The hash indexes of a table with dynamic buckets: the hashes of each bucket, and how a commit updates them.

In: the entries of index manifests, and the new hashes of commit messages. Out: hashes by bucket, and the next entries.
A key belongs to one bucket. So a commit that puts a key into one bucket while another has it is refused: two writers
have put it into different buckets.

    writer 1 reads snapshot 7: no bucket has key k    puts k into bucket 0    commits 8
    writer 2 reads snapshot 7: no bucket has key k    puts k into bucket 1    refused after 8, no row is committed

A hash that the same bucket has already is no conflict: two keys may share it, and two writers may have put one key into
the same bucket. Each commit with new hashes reads all indexes of its partitions, 4 bytes for each of their keys, or
finds them in memory. Source: Paimon `IndexFileHandler`, `IndexManifestFileHandler`. Raises ConflictError,
DamagedError, NotFoundError and StorageError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from widetable.commit.snapshots.manifest_writer import ManifestWriter
from widetable.errors import ConflictError, DamagedError, NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.hash_index import read_hash_index, write_hash_index
from widetable.format.index_manifest import HASH, IndexEntry
from widetable.kernels.hashing.bucket_hash import Hashes
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage

# The most bytes of index files that are kept in memory from commit to commit. Others are read again.
_MAX_KEPT_BYTES: Final = 64 << 20
_log = logging.getLogger("widetable")


class HashIndexes:
    """The hash indexes of one table; threads may share it: the cached files are replaced, never changed."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._kept: dict[str, Hashes] = {}

    def of_partition(self, entries: Iterable[IndexEntry], partition: bytes) -> dict[int, Hashes]:
        """Return, by bucket, the hashes in the index files of a partition, ascending. entries: of a snapshot.

        Files that cannot be read are left out, with a warning: they can be rebuilt from the bucket's data files.
        """
        by_bucket: dict[int, Hashes] = {}
        for entry in entries:
            if entry.kind == HASH and entry.bucket.partition == partition:
                try:
                    by_bucket[entry.bucket.number] = self._hashes(entry)
                except (DamagedError, NotFoundError) as error:
                    warn(
                        _log,
                        WarningCode.HASH_INDEX_REBUILT,
                        "rebuilt from the bucket's data files: %s",
                        error,
                    )
        return by_bucket

    def next_entries(
        self,
        entries: Iterable[IndexEntry],
        messages: Iterable[CommitMessage],
        writer: ManifestWriter,
    ) -> list[IndexEntry]:
        """Return the entries with the new hashes of the messages. Raises ConflictError if two buckets have one."""
        entries = list(entries)
        others = [entry for entry in entries if entry.kind != HASH]
        indexes = {entry.bucket: entry for entry in entries if entry.kind == HASH}
        new = _new_hashes(messages)
        for partition in {bucket.partition for bucket in new}:
            self._check_one_bucket_each(partition, new, indexes)
        for bucket, added in new.items():
            hashes = self._with_existing(added, indexes.get(bucket))
            name, size_bytes = writer.index_file(write_hash_index(hashes))
            indexes[bucket] = IndexEntry(bucket, HASH, name, size_bytes, len(hashes))
            self._keep(name, hashes)
        named = {entry.file_name for entry in indexes.values()}
        self._kept = {name: hashes for name, hashes in self._kept.items() if name in named}
        return [*others, *indexes.values()]

    def _check_one_bucket_each(
        self,
        partition: bytes,
        new: Mapping[BucketId, Hashes],
        indexes: Mapping[BucketId, IndexEntry],
    ) -> None:
        """Raise ConflictError if a new hash is in two buckets.

        All new hashes of the partition are sorted together, so that one bisection for each existing hash finds whether
        it is among them, and `buckets` gives the bucket.
        """
        added = {bucket: hashes for bucket, hashes in new.items() if bucket.partition == partition}
        hashes = np.concatenate(list(added.values()))
        numbers = [bucket.number for bucket in added]
        buckets = np.repeat(numbers, [len(each) for each in added.values()])
        order = np.argsort(hashes, kind="stable")
        hashes, buckets = hashes[order], buckets[order]
        twice = int((hashes[1:] == hashes[:-1]).sum())
        if twice:
            raise self._conflict(twice, "writers of this commit have put into several buckets")
        for bucket, entry in indexes.items():
            if bucket.partition != partition:
                continue
            existing = self._existing(entry, added.get(bucket))
            at = np.minimum(np.searchsorted(hashes, existing), len(hashes) - 1)
            count = int(((hashes[at] == existing) & (buckets[at] != bucket.number)).sum())
            if count:
                where = f"another commit has put into bucket {bucket.number} meanwhile"
                raise self._conflict(count, where)

    def _with_existing(self, added: Hashes, before: IndexEntry | None) -> Hashes:
        if before is None:
            return added
        return np.union1d(added, self._existing(before, added)).astype(np.int32)

    def _existing(self, entry: IndexEntry, added: Hashes | None) -> Hashes:
        """Return the hashes of an index file; none for an unreadable file that the writer has rebuilt in `added`."""
        try:
            return self._hashes(entry)
        except (DamagedError, NotFoundError):
            if added is None or len(added) < entry.row_count:
                raise
            return np.empty(0, np.int32)

    def _conflict(self, count: int, where: str) -> ConflictError:
        return ConflictError(
            self._paths.root,
            found=f"{counted(count, 'new key')} that {where}",
            expected="one writer at a time, as buckets are dynamic",
            action="Write the rows again; let one writer follow the other.",
        )

    def _hashes(self, entry: IndexEntry) -> Hashes:
        """Return the hashes of an index file. File names are never reused, so a cached value cannot be stale."""
        hashes = self._kept.get(entry.file_name)
        if hashes is None:
            hashes = read_index(self._file_io, self._paths, entry)
            self._keep(entry.file_name, hashes)
        return hashes

    def _keep(self, name: str, hashes: Hashes) -> None:
        kept_bytes = sum(kept.nbytes for kept in self._kept.values())
        if kept_bytes + hashes.nbytes <= _MAX_KEPT_BYTES:
            self._kept = {**self._kept, name: hashes}


def read_index(file_io: FileIO, paths: TablePaths, entry: IndexEntry) -> Hashes:
    """Read the hashes of an index file, ascending. Raises DamagedError if its size differs from the manifest's."""
    path = paths.index(entry.file_name)
    data = file_io.read(path)
    if len(data) != entry.file_size:
        raise DamagedError(
            path,
            found=counted(len(data), "byte"),
            expected=f"{counted(entry.file_size, 'byte')}, as the index manifest says",
            action="Write to the table: the index is then rebuilt from the bucket's data files.",
        )
    return read_hash_index(data, path)


def _new_hashes(messages: Iterable[CommitMessage]) -> dict[BucketId, Hashes]:
    """Return the new hashes of each bucket, ascending."""
    by_bucket: dict[BucketId, list[Hashes]] = {}
    for message in messages:
        if message.new_hashes:
            hashes = read_hash_index(message.new_hashes, "commit message")
            by_bucket.setdefault(message.bucket_id, []).append(hashes)
    return {bucket: np.unique(np.concatenate(parts)) for bucket, parts in by_bucket.items()}
