"""What a writer or a compaction hands to the commit: the files of one bucket that appear and disappear.

Values only. Picklable with a version, because messages travel from Spark's tasks to its driver: one that another
version made raises UnsupportedError when it is unpickled, instead of being misread.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from widetable.errors import UnsupportedError
from widetable.format.bucket_id import BucketId
from widetable.format.column_stats import Stats
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import DeletedRows

# Bumped when a field of CommitMessage, DataFileMeta or Stats changes.
MESSAGE_VERSION: Final = 7


@dataclass(frozen=True)
class CommitMessage:
    """Files of one bucket of one partition.

    partition: BinaryRow of the partition columns, arity in front. total_buckets: of that partition.
    new_files, deleted_files: what an append or overwrite adds and removes. compact_before, compact_after: what a
    compaction reads and leaves instead; a moved file is in both, with its old and its new level. changelog_files: what
    an append (producer `input`) or a compaction (`lookup`, `full-compaction`) emits to readers of changes. new_hashes:
    of keys that are new in a dynamic bucket, as its index has them (format.hash_index). marked_files: live files, as
    they were found, that stay or come back without some of their rows; new_vectors: their deletion vectors from now on,
    in the same order (format.deletion_vector). expired_rows: that a compaction let go because they are too old.
    columns: field ids of the value columns that the records of new_files may have values in; None where nobody knows.
    schema_digest: of the schema that a writer made new_files with (`TableSchema.digest`); None where nobody knows.

    A compaction that merged a and b into c and moved d from level 0 to 5:

        compact_before  a@0 b@0 d@0      compact_after  c@5 d@5      written_files  c

    What failed commits may delete is `written_files`: d was there before, and stays.
    """

    __module__ = "widetable"

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_hashes: bytes = b""
    marked_files: tuple[DataFileMeta, ...] = ()
    new_vectors: tuple[bytes, ...] = ()
    expired_rows: int = 0
    columns: frozenset[int] | None = None
    schema_digest: str | None = None

    @property
    def bucket_id(self) -> BucketId:
        return BucketId(self.partition, self.bucket)

    @property
    def is_empty(self) -> bool:
        """Whether no file comes or goes. New hashes alone do not count."""
        return not any(getattr(self, name) for name in _FILES)

    def written_files(self) -> tuple[DataFileMeta, ...]:
        """Files whose bytes came to be with this message: moved files are not among them."""
        moved = {file.file_name for file in self.compact_before}
        compacted = tuple(file for file in self.compact_after if file.file_name not in moved)
        return self.new_files + compacted + self.changelog_files

    def __reduce__(self) -> tuple[object, ...]:
        """The version stands first and is plain, as are all values behind it, so that another
        version's pickle is refused with words and not by an error of unpickling.
        """
        values = tuple(
            tuple(map(_plain, getattr(self, field.name)))
            if field.name in _FILES
            else getattr(self, field.name)
            for field in fields(self)
        )
        return _unpickle, (MESSAGE_VERSION, values)


_FILES: Final = (
    "new_files",
    "deleted_files",
    "compact_before",
    "compact_after",
    "changelog_files",
    "marked_files",
)


def _unpickle(version: int, values: tuple[Any, ...]) -> CommitMessage:
    if version != MESSAGE_VERSION:
        raise UnsupportedError(
            "commit message",
            found=f"version {version}",
            expected=f"version {MESSAGE_VERSION}",
            action="Run the same version of this package in the driver and in all tasks.",
        )
    names = [field.name for field in fields(CommitMessage)]
    whole = dict(zip(names, values, strict=True))
    for name in _FILES:
        whole[name] = tuple(_file(values) for values in whole[name])
    return CommitMessage(**whole)


def _plain(file: DataFileMeta) -> tuple[Any, ...]:
    """In plain tuples, which every version unpickles, so that it is the version that is compared."""
    return tuple(tuple(v) if isinstance(v, Stats | DeletedRows) else v for v in file)


def _file(values: tuple[Any, ...]) -> DataFileMeta:
    whole = dict(zip(DataFileMeta._fields, values, strict=True))
    for name in ("key_stats", "value_stats"):
        whole[name] = Stats(*whole[name])
    if whole["deleted"] is not None:
        whole["deleted"] = DeletedRows(*whole["deleted"])
    return DataFileMeta(**whole)
