"""Messages that put data files into a table as they are: at their levels, without the rows that were deleted of them.

In: entries of a snapshot, and the storage on which their deletion vectors lie. Raises what reading vectors raises.
"""

from __future__ import annotations

from collections.abc import Iterable

from widetable.format.bucket_id import by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import vector_bytes
from widetable.format.manifest_entry import ManifestEntry
from widetable.storage.file_io import FileIO
from widetable.write.commit_message import CommitMessage


def restoring(file_io: FileIO, entries: Iterable[ManifestEntry]) -> list[CommitMessage]:
    """For `Committer.restore`, one of each bucket."""
    found = []
    for bucket, members in by_bucket(entries).items():
        files = tuple(entry.file for entry in members)
        marked = tuple(file for file in files if file.deleted is not None)
        found.append(
            CommitMessage(
                *bucket,
                members[0].total_buckets,
                new_files=files,
                marked_files=marked,
                new_vectors=tuple(vector_of(file_io, file) for file in marked),
            )
        )
    return found


def vector_of(file_io: FileIO, file: DataFileMeta) -> bytes:
    """Of the rows of a file that count no more; empty without any."""
    return b"" if file.deleted is None else vector_bytes(file_io, file.deleted)
