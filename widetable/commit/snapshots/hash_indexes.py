"""The hash indexes of a table with dynamic buckets: what each bucket has, and what a commit makes of it.

In: the entries of index manifests, and the new hashes of commit messages. Out: hashes by bucket, and the next
entries. A key is in one bucket only, so a commit that puts one where another bucket has it is refused: two writers
have put it into two.

    writer 1 reads snapshot 7: no bucket has key k    puts k into bucket 0    commits 8
    writer 2 reads snapshot 7: no bucket has key k    puts k into bucket 1    refused behind 8, and no row is in

A hash that the same bucket has already is no conflict: two keys may share it, and two writers may
have put one key into the same bucket. Each commit with new hashes reads all indexes of its
partitions, 4 bytes for each of their keys, or finds them kept. Source: Paimon `IndexFileHandler`,
`IndexManifestFileHandler`. Raises ConflictError, DamagedError, NotFoundError and StorageError.
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
from widetable.kernels.bucket_hash import Hashes
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage

# Of index files that are kept in memory from commit to commit. What does not fit is read again.
_MOST_KEPT_BYTES: Final = 64 << 20
_log = logging.getLogger("widetable")


class HashIndexes:
    """For one table; threads may share it: what is kept is replaced, never changed."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._kept: dict[str, Hashes] = {}

    def of_partition(self, entries: Iterable[IndexEntry], partition: bytes) -> dict[int, Hashes]:
        """By bucket, the hashes that the index files of a partition have, ascending. entries: of a snapshot. Files that
        cannot be read are left out, with a warning: the bucket's data files say the same.
        """
        found: dict[int, Hashes] = {}
        for entry in entries:
            if entry.kind == HASH and entry.bucket.partition == partition:
                try:
                    found[entry.bucket.number] = self._hashes(entry)
                except (DamagedError, NotFoundError) as error:
                    warn(
                        _log,
                        WarningCode.INDEX_OF_HASHES_REMADE,
                        "made anew of the bucket's data files: %s",
                        error,
                    )
        return found

    def next_entries(
        self,
        entries: Iterable[IndexEntry],
        messages: Iterable[CommitMessage],
        writer: ManifestWriter,
    ) -> list[IndexEntry]:
        """The entries with the new hashes of the messages. Raises ConflictError where two buckets have one."""
        entries = list(entries)
        others = [entry for entry in entries if entry.kind != HASH]
        indexes = {entry.bucket: entry for entry in entries if entry.kind == HASH}
        new = _united(messages)
        for partition in {bucket.partition for bucket in new}:
            self._check_apart(partition, new, indexes)
        for bucket, added in new.items():
            hashes = self._with_known(added, indexes.get(bucket))
            name, size_bytes = writer.index_file(write_hash_index(hashes))
            indexes[bucket] = IndexEntry(bucket, HASH, name, size_bytes, len(hashes))
            self._keep(name, hashes)
        named = {entry.file_name for entry in indexes.values()}
        self._kept = {name: hashes for name, hashes in self._kept.items() if name in named}
        return [*others, *indexes.values()]

    def _check_apart(
        self,
        partition: bytes,
        new: Mapping[BucketId, Hashes],
        indexes: Mapping[BucketId, IndexEntry],
    ) -> None:
        """Each new hash is in one bucket only.
        All new ones of the partition are sorted together, so that one bisection for each known
        hash finds whether it is among them, and `buckets` in whose.
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
            known = self._known(entry, added.get(bucket))
            at = np.minimum(np.searchsorted(hashes, known), len(hashes) - 1)
            count = int(((hashes[at] == known) & (buckets[at] != bucket.number)).sum())
            if count:
                where = f"another commit has put into bucket {bucket.number} meanwhile"
                raise self._conflict(count, where)

    def _with_known(self, added: Hashes, before: IndexEntry | None) -> Hashes:
        if before is None:
            return added
        return np.union1d(added, self._known(before, added)).astype(np.int32)

    def _known(self, entry: IndexEntry, added: Hashes | None) -> Hashes:
        """What an index file has. One that cannot be read may be replaced by a writer that made it anew."""
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
        """Names are never used again, so what is kept cannot be old."""
        found = self._kept.get(entry.file_name)
        if found is None:
            found = read_index(self._file_io, self._paths, entry)
            self._keep(entry.file_name, found)
        return found

    def _keep(self, name: str, hashes: Hashes) -> None:
        held_bytes = sum(kept.nbytes for kept in self._kept.values())
        if held_bytes + hashes.nbytes <= _MOST_KEPT_BYTES:
            self._kept = {**self._kept, name: hashes}


def read_index(file_io: FileIO, paths: TablePaths, entry: IndexEntry) -> Hashes:
    """The hashes of an index file, ascending. Raises DamagedError for another size than the manifest's."""
    path = paths.index(entry.file_name)
    data = file_io.read(path)
    if len(data) != entry.file_size:
        raise DamagedError(
            path,
            found=counted(len(data), "byte"),
            expected=f"{counted(entry.file_size, 'byte')}, as the index manifest says",
            action="Write to the table: the index is made anew of the bucket's data files.",
        )
    return read_hash_index(data, path)


def _united(messages: Iterable[CommitMessage]) -> dict[BucketId, Hashes]:
    """The new hashes of each bucket, ascending."""
    found: dict[BucketId, list[Hashes]] = {}
    for message in messages:
        if message.new_hashes:
            hashes = read_hash_index(message.new_hashes, "commit message")
            found.setdefault(message.bucket_id, []).append(hashes)
    return {bucket: np.unique(np.concatenate(parts)) for bucket, parts in found.items()}
