"""The deletion vectors of a table: what a commit makes of them, and the rows that one holds.

    entries of the newest index manifest, files that go, files that are marked ─► entries of the next one

A bucket has one index file with the vectors of all its files; it is written anew whenever one of them changes, and
vectors of files that are not live any more are left out then. Source: Paimon `BucketedDvMaintainer`,
`DeletionVectorsIndexFile`. Raises DamagedError, NotFoundError and StorageError.

    bucket 0 has an index file i1 with vectors of a and b; the commit replaces a and marks c
        ─► i2 with the vectors of b, as it was, and c; i1 stays for the snapshots that name it
    bucket 1 has one with vectors of d, and the commit touches none of its files ─► its entry is copied
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
    """By bucket, the new vectors of the data files that a commit marks.

    By name of the file there. Each is a whole vector: what was deleted before is in it.
    """
    found: dict[BucketId, dict[str, bytes]] = {}
    for message in messages:
        names = (file.file_name for file in message.marked_files)
        new = dict(zip(names, message.new_vectors, strict=True))
        if new:
            found.setdefault(message.bucket_id, {}).update(new)
    return found


def next_entries(
    entries: Sequence[IndexEntry],
    gone: Collection[str],
    new: Mapping[BucketId, Mapping[str, bytes]],
    writer: ManifestWriter,
) -> list[IndexEntry]:
    """The entries with these vectors, and without those of data files that are gone. Others stay as they are.

    Reads the vectors of touched buckets, each by its range, and writes one index file for each of
    them that has some left. Entries of hashes, and of other buckets, stay as they are, in front.
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
    """A version byte, then the vectors one after the other; where each lies stands in the entry.
    The rows of each are counted here, and readers hold what they decode against that.
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
