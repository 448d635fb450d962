"""One entry of a manifest: a data file is added to a bucket, or removed from it.

Source: Paimon `ManifestEntry`, `FileEntry.mergeEntries`; format.md section 4. `manifest_file` writes and reads
them. `combine` raises DamagedError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from widetable.errors import DamagedError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta

# On disk: never change (Paimon `FileKind`, `ManifestEntrySerializer` version).
ADD: Final = 0
DELETE: Final = 1
ENTRY_VERSION: Final = 2

Identity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class ManifestEntry(NamedTuple):
    """An entry. kind: ADD or DELETE. partition: BinaryRow with its arity. total_buckets: the partition's.

    Every entry has total_buckets, so a partition's number of buckets is that of its
    files, whatever the option's value is now (docs/decisions/0035); -1 for dynamic buckets.
    """

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def bucket_id(self) -> BucketId:
        return BucketId(self.partition, self.bucket)

    @property
    def identity(self) -> Identity:
        """The fields that identify a file; the level is one of them."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )


def combine(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries that are left when each DELETE has cancelled the ADD before it, in order.

    A DELETE without an ADD before it stays: it cancels one in an older manifest. A second ADD of a
    file raises DamagedError.

        ADD f@0, DELETE f@0, ADD f@5      ->  ADD f@5                     moved to level 5
        DELETE f@0, ADD f@5               ->  DELETE f@0, ADD f@5         f@0 is in an older manifest
        DELETE f@0, ADD f@0               ->  DamagedError                as in Paimon

    Files of one name at two levels have two identities. The other entries keep their order.
    """
    left: dict[Identity, ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        present = left.get(identity)
        if entry.kind == DELETE:
            if present is not None and present.kind == ADD:
                del left[identity]
            else:
                left[identity] = entry
        elif present is not None:
            raise DamagedError(
                f"data file {entry.file.file_name!r} of bucket {entry.bucket}",
                found=f"a second entry that adds it at level {entry.file.level}",
                expected="one such entry, or one that deletes the file before it is added again",
                action="Go back to the snapshot before the one that added the file twice.",
            )
        else:
            left[identity] = entry
    return list(left.values())
