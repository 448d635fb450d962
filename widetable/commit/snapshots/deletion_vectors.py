"""The deletion vectors of a table: how a commit updates their index files.

    entries of the newest index manifest, removed files, marked files ─► entries of the next one

A bucket has one index file with the vectors of all its files. It is rewritten when one of them changes, without the
vectors of files that are no longer live. Source: Paimon `BucketedDvMaintainer`, `DeletionVectorsIndexFile`. Raises
DamagedError, NotFoundError and StorageError.

    bucket 0 has an index file i1 with vectors of a and b; the commit replaces a and marks c
        ─► i2 with the vectors of b, unchanged, and c; i1 stays for the snapshots that name it
    bucket 1 has one with the vector of d, and the commit touches none of its files ─► its entry is copied
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from widetable.commit.snapshots.manifest_writer import ManifestWriter
from widetable.format.bucket_id import BucketId
from widetable.format.deletion_vector import (
    VERSION,
    DeletedRows,
    decode_vector,
    recorded_length,
    vector_bytes,
)
from widetable.format.index_manifest import DELETION_VECTORS, IndexEntry, VectorRange
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage


def marked(messages: Iterable[CommitMessage]) -> dict[BucketId, dict[str, bytes]]:
    """Return, by bucket and file name, the new vectors of the data files that a commit marks.

    Each vector is complete: it contains the rows that were deleted before.
    """
    vectors: dict[BucketId, dict[str, bytes]] = {}
    for message in messages:
        names = (file.file_name for file in message.marked_files)
        new = dict(zip(names, message.new_vectors, strict=True))
        if new:
            vectors.setdefault(message.bucket_id, {}).update(new)
    return vectors


def next_entries(
    entries: Sequence[IndexEntry],
    gone: Collection[str],
    new: Mapping[BucketId, Mapping[str, bytes]],
    writer: ManifestWriter,
) -> list[IndexEntry]:
    """Return the entries with the new vectors, and without those of removed data files (`gone`).

    Reads the vectors of touched buckets, each by its range, and writes one index file for each of these buckets that
    has vectors left. Entries of hashes and of other buckets stay unchanged, in front.
    """
    touched = {
        entry.bucket
        for entry in entries
        if any(vector.data_file in gone for vector in entry.vectors)
    } | set(new)
    left = [e for e in entries if e.kind != DELETION_VECTORS or e.bucket not in touched]
    for bucket in sorted(touched):
        vectors = {
            vector.data_file: vector_bytes(writer.file_io, _place(writer.paths, entry, vector))
            for entry in entries
            if entry.bucket == bucket
            for vector in entry.vectors
            if vector.data_file not in gone
        }
        vectors |= new.get(bucket, {})
        if vectors:
            left.append(_written(bucket, vectors, writer))
    return left


def _place(paths: TablePaths, entry: IndexEntry, vector: VectorRange) -> DeletedRows:
    return DeletedRows(paths.index(entry.file_name), vector.start, vector.length, vector.rows)


def _written(bucket: BucketId, vectors: Mapping[str, bytes], writer: ManifestWriter) -> IndexEntry:
    """Write an index file: a version byte, then the vectors; the entry has the position of each.

    The rows of each vector are counted here; readers compare the decoded vector with the count.
    """
    ranges: list[VectorRange] = []
    data = bytearray(VERSION)
    for name, vector in vectors.items():
        place = DeletedRows(name, len(data), recorded_length(vector), None)
        rows = len(decode_vector(vector, place))
        ranges.append(VectorRange(name, place.start, place.length, rows))
        data += vector
    file_name, size_bytes = writer.index_file(bytes(data))
    return IndexEntry(bucket, DELETION_VECTORS, file_name, size_bytes, len(ranges), tuple(ranges))
