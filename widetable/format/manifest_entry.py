"""One line of a manifest: a data file is added to a bucket, or taken from it.

Source: Paimon `ManifestEntry`, `FileEntry.mergeEntries`; format.md section 4. Records are the
dictionaries that Avro encodes; `manifest_file` reads them back. `combine` raises DamagedError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from widetable.errors import DamagedError
from widetable.format.bucket_id import BucketId
from widetable.format.column_stats import Stats
from widetable.format.data_file_meta import DataFileMeta

# On disk: never change (Paimon `FileKind`, `ManifestEntrySerializer` version).
ADD: Final = 0
DELETE: Final = 1
ENTRY_VERSION: Final = 2

Identity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]
Record: TypeAlias = dict[str, Any]


class ManifestEntry(NamedTuple):
    """kind: ADD or DELETE. partition: BinaryRow, arity in front. total_buckets: the partition's.

    total_buckets goes with every entry, so a partition's number of buckets is that of its
    files, whatever the option says now (docs/decisions/0035); -1 for dynamic buckets.
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
        """What makes two entries speak of the same file; the level belongs to it."""
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
    """The entries that are left when each DELETE has cancelled the ADD before it, in order.

    A DELETE without an ADD before it stays: it cancels one in an older manifest. An ADD of what is
    there already raises DamagedError.

        ADD f@0, DELETE f@0, ADD f@5      ->  ADD f@5                     moved to level 5
        DELETE f@0, ADD f@5               ->  DELETE f@0, ADD f@5         f@0 is in a manifest before
        DELETE f@0, ADD f@0               ->  DamagedError                as in Paimon

    Files of one name at two levels are two identities. The order of the rest is that in which
    they came.
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


def to_record(entry: ManifestEntry) -> Record:
    """The Avro record of an entry."""
    file = entry.file
    return {
        "_VERSION": ENTRY_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": stats_to_record(file.key_stats),
            "_VALUE_STATS": stats_to_record(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": file.extra_files,
            "_CREATION_TIME": file.creation_time_millis,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": file.file_source,
            "_VALUE_STATS_COLS": _as_list(file.value_stats_cols),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": _as_list(file.write_cols),
            "_WRITE_COLS_SEQUENCES": _as_list(file.write_cols_sequences),
        },
    }


def stats_to_record(stats: Stats) -> Record:
    """The Avro record of stats."""
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _as_list(items: tuple[Any, ...] | None) -> list[Any] | None:
    # Not the tuple itself: in a union Avro's encoder takes a tuple for (branch name, value).
    return None if items is None else list(items)
