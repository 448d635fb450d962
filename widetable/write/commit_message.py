"""The message of a writer or a compaction to the commit: the files of one bucket that are added and removed.

It contains only values. Its pickle has a version, because messages travel from Spark's tasks to its driver: unpickling
a message of another version raises UnsupportedError instead of misreading it.
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
    """The files of one bucket of one partition that a task has written, for a commit to publish.

    A compaction that merged a and b into c and moved d from level 0 to 5:

        compact_before  a@0 b@0 d@0      compact_after  c@5 d@5      written_files  c

    What failed commits may delete is `written_files`: d existed before, and stays.

    Attributes
    ----------
    partition : bytes
        The BinaryRow of the partition columns, with its arity in front.
    bucket : int
        The number of the bucket.
    total_buckets : int
        The number of buckets of the partition.
    new_files, deleted_files : tuple of DataFileMeta
        Files that an append or overwrite adds and removes.
    compact_before, compact_after : tuple of DataFileMeta
        Files that a compaction reads, and those that replace them. A moved file is in both, with its old and its new
        level.
    changelog_files : tuple of DataFileMeta
        Files that an append (producer `input`) or a compaction (`lookup`, `full-compaction`) gives to readers of
        changes.
    new_hashes : bytes
        The hashes of keys that are new in a dynamic bucket, in the form of its index (format.hash_index).
    marked_files : tuple of DataFileMeta
        Live files, as the writer saw them, that stay or come back without some of their rows.
    new_vectors : tuple of bytes
        The new deletion vectors of `marked_files`, in the same order (format.deletion_vector).
    expired_rows : int
        The number of rows that a compaction removed because they are too old.
    columns : frozenset of int or None
        The field ids of the value columns in which records of `new_files` may have values. None: unknown.
    schema_digest : str or None
        The digest of the schema with which a writer made `new_files` (`TableSchema.digest`). None: unknown.
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
        """Partition and number of the bucket."""
        return BucketId(self.partition, self.bucket)

    @property
    def is_empty(self) -> bool:
        """Whether the message adds and removes no file. New hashes alone do not count."""
        return not any(getattr(self, name) for name in _FILES)

    def written_files(self) -> tuple[DataFileMeta, ...]:
        """List the files whose bytes were written for this message.

        Returns
        -------
        tuple of DataFileMeta
            New, compacted and changelog files; moved files are not among them.
        """
        moved = {file.file_name for file in self.compact_before}
        compacted = tuple(file for file in self.compact_after if file.file_name not in moved)
        return self.new_files + compacted + self.changelog_files

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the version first, then plain values, so that a pickle of another version is refused by a clear error
        and not by one of unpickling.
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
    """Convert to plain tuples, which every version can unpickle, so that the versions can be compared."""
    return tuple(tuple(v) if isinstance(v, Stats | DeletedRows) else v for v in file)


def _file(values: tuple[Any, ...]) -> DataFileMeta:
    whole = dict(zip(DataFileMeta._fields, values, strict=True))
    for name in ("key_stats", "value_stats"):
        whole[name] = Stats(*whole[name])
    if whole["deleted"] is not None:
        whole["deleted"] = DeletedRows(*whole["deleted"])
    return DataFileMeta(**whole)
