"""The law of hash indexes: the index of a dynamic bucket has the hash of each of its keys, and no other bucket of the
partition has such a key.

A file of hashes has no checksum, and a wrong bit does not change its size. A writer takes a key whose hash is lost for
a new one, and puts it into another bucket, too. In: the index files and data files of one snapshot. Out: findings.
Files that cannot be read are skipped: a writer rebuilds them from the bucket's data files, and other laws cover those.
Reads the keys of all live files of such a table. Raises StorageError.

    bucket 0    keys a b c    index  h(a) h(b) h(c) h(d)    holds: d was deleted, and its hash stays
    bucket 1    keys e f      index  h(e) 17                breaks it: the next f goes to bucket 2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from widetable.commit.snapshots.hash_indexes import read_index
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.transaction.partition_buckets import hashes_of_files
from widetable.errors import DamagedError, NotFoundError
from widetable.format.bucket_id import by_bucket
from widetable.format.index_manifest import HASH, IndexEntry
from widetable.format.snapshot import Snapshot
from widetable.kernels.hashing.bucket_hash import Hashes
from widetable.messages.counted import counted
from widetable.operations.health.audit_report import Finding, Findings
from widetable.operations.health.doctor_report import DoctorFinding
from widetable.operations.health.snapshot_audit import partition_text
from widetable.write.table_state import TableState

LAW: Final = "hash-index"
_EXPECTED: Final = "the hash of each key of the bucket"
# If keys are in two buckets, a rebuilt index is refused; then only an overwrite helps.
_ACTION: Final = (
    "If nothing was written since, remove the file: the next writer rebuilds it from the bucket's data files. "
    "Otherwise keys may be in another bucket, too (Table.audit counts them): overwrite the table with all rows, each "
    "once."
)


def audit_hash_indexes(
    table: TableState, findings: Findings, live_files: LiveFiles, snapshot: Snapshot
) -> None:
    """Add a finding for each index of a snapshot that lacks hashes, and for each partition with a key in several
    buckets.
    """
    of_partition: dict[bytes, list[Hashes]] = {}
    for entry, hashes, lacking in _readable_indexes(table, live_files, snapshot):
        findings.checked(LAW)
        of_partition.setdefault(entry.bucket.partition, []).append(hashes)
        if lacking:
            partition = partition_text(entry.bucket.partition, table.schema)
            text = f"none for {counted(lacking, 'key')} in {entry.file_name}"
            findings.add(Finding(LAW, snapshot.id, _EXPECTED, text, partition, entry.bucket.number))
    for partition_row, parts in of_partition.items():
        twice = sum(map(len, parts)) - len(np.unique(np.concatenate(parts)))
        if twice:
            partition = partition_text(partition_row, table.schema)
            text = f"{counted(twice, 'key that is', 'keys that are')} in several"
            findings.add(Finding(LAW, snapshot.id, "each key in one bucket", text, partition))


def hash_index_findings(
    table: TableState, live_files: LiveFiles, snapshot: Snapshot
) -> Iterator[DoctorFinding]:
    """Yield a finding of the doctor for each index of a snapshot that lacks hashes."""
    for entry, _, lacking in _readable_indexes(table, live_files, snapshot):
        if lacking:
            concerned = (
                f"bucket {entry.bucket.number}, whose keys writers put into other buckets, too"
            )
            path, text = table.paths.index(entry.file_name), f"none for {counted(lacking, 'key')}"
            yield DoctorFinding("files", path, text, _EXPECTED, concerned, _ACTION)


def _readable_indexes(
    table: TableState, live_files: LiveFiles, snapshot: Snapshot
) -> Iterator[tuple[IndexEntry, Hashes, int]]:
    """Yield the index files that can be read, the hashes of the bucket's keys, and how many of these each lacks."""
    indexes = [each for each in live_files.index(snapshot) if each.kind == HASH]
    live = by_bucket(live_files.live_entries(snapshot)) if indexes else {}
    for entry in indexes:
        try:
            indexed = read_index(table.file_io, table.paths, entry)
            hashes = hashes_of_files(table, entry.bucket, live.get(entry.bucket, []))
        except (DamagedError, NotFoundError):
            continue
        yield entry, hashes, len(np.setdiff1d(hashes, indexed))
