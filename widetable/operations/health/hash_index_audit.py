"""The law of hash indexes: that of a dynamic bucket has the hash of each of its keys, and no other bucket of the
partition has such a key.

A file of hashes has no checksum, and is no longer or shorter for a wrong bit: the key whose hash is lost is taken for a
new one, and put into another bucket, too. In: the index files and data files of one snapshot. Out: findings. Files that
cannot be read are passed by: a writer makes them anew of the bucket's data files, and what is wrong with those other
laws say. Reads the keys of all live files of such a table. Raises StorageError.

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
from widetable.kernels.bucket_hash import Hashes
from widetable.messages.counted import counted
from widetable.operations.health.audit_report import Finding, Findings
from widetable.operations.health.doctor_report import DoctorFinding
from widetable.operations.health.snapshot_audit import partition_text
from widetable.write.table_state import TableState

LAW: Final = "hash-index"
_EXPECTED: Final = "the hash of each key of the bucket"
# Where keys are in two buckets an index that is made anew is refused: then only an overwrite helps.
_ACTION: Final = (
    "If nothing was written since, remove the file: the next writer makes it anew of the bucket's data files. Else "
    "keys may be in another bucket, too (Table.audit counts them): write all rows anew (overwrite), each once."
)


def audit_hash_indexes(
    table: TableState, findings: Findings, live_files: LiveFiles, snapshot: Snapshot
) -> None:
    """A finding for each index that lacks hashes, and for each partition with a key in several buckets, as of one
    snapshot.
    """
    of_partition: dict[bytes, list[Hashes]] = {}
    for entry, held, lacking in _looked_at(table, live_files, snapshot):
        findings.checked(LAW)
        of_partition.setdefault(entry.bucket.partition, []).append(held)
        if lacking:
            partition = partition_text(entry.bucket.partition, table.schema)
            found, number = (
                f"none for {counted(lacking, 'key')} in {entry.file_name}",
                entry.bucket.number,
            )
            findings.add(Finding(LAW, snapshot.id, _EXPECTED, found, partition, number))
    for partition_row, parts in of_partition.items():
        twice = sum(map(len, parts)) - len(np.unique(np.concatenate(parts)))
        if twice:
            partition = partition_text(partition_row, table.schema)
            found = f"{counted(twice, 'key that is', 'keys that are')} in several"
            findings.add(Finding(LAW, snapshot.id, "each key in one bucket", found, partition))


def hash_index_findings(
    table: TableState, live_files: LiveFiles, snapshot: Snapshot
) -> Iterator[DoctorFinding]:
    """The same for who mends it."""
    for entry, _, lacking in _looked_at(table, live_files, snapshot):
        if lacking:
            concerned = f"bucket {entry.bucket.number}, whose keys are put into others, too"
            path, found = table.paths.index(entry.file_name), f"none for {counted(lacking, 'key')}"
            yield DoctorFinding("files", path, found, _EXPECTED, concerned, _ACTION)


def _looked_at(
    table: TableState, live_files: LiveFiles, snapshot: Snapshot
) -> Iterator[tuple[IndexEntry, Hashes, int]]:
    """Index files that can be read, the hashes of the bucket's keys, and how many of these each lacks."""
    indexes = [each for each in live_files.index(snapshot) if each.kind == HASH]
    live = by_bucket(live_files.live_entries(snapshot)) if indexes else {}
    for entry in indexes:
        try:
            known = read_index(table.file_io, table.paths, entry)
            held = hashes_of_files(table, entry.bucket, live.get(entry.bucket, []))
        except (DamagedError, NotFoundError):
            continue
        yield entry, held, len(np.setdiff1d(held, known))
