"""A split: the files of one bucket that a reader needs, and the reader of them. Both are picklable.

A split needs no merge when its files are one sorted run without deletes (format.md T1, T2): a
single file, or several files of one level >= 1, whose writers counted no delete. Then kinds are not
looked at, as in Paimon's clients. Raises what `merge_read` raises; a missing file is reported as `expired` says.

    files of the bucket                               merge     raw files
    one, of any level, no deletes                     no        that one
    several of level 5, no deletes                    no        these: their key ranges are apart
    one of level 0 and one of level 5                 yes       -
    one with deletes that its writer counted          yes       -: a scan must leave these rows out
    one with rows that a deletion vector takes out    no        -: they go while it is read
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.read.expired import files_of
from widetable.read.merge_read import read_bucket
from widetable.read.predicate import Predicate
from widetable.write.table_state import TableState


@dataclass(frozen=True)
class Split:
    """snapshot_id: whose files they are. files: without those that the filter rules out. needs_merge: of the whole
    bucket.

    As of a barrier, snapshot_id is the base's, and files of later snapshots are among the
    files; it only says which snapshot is looked at when a file is missing.
    """

    snapshot_id: int
    bucket: BucketId
    files: tuple[DataFileMeta, ...]
    needs_merge: bool

    @property
    def rows(self) -> int:
        """Rows in the files: at least as many as the split has when merged."""
        return sum(file.row_count for file in self.files)

    @property
    def has_exact_rows(self) -> bool:
        """Whether it has just these rows: nothing is merged, and no row deletes.

        Stricter than `needs_merge`: a writer that did not count its deletes (None) may have
        written some.
        """
        return not self.needs_merge and all(
            file.delete_row_count == 0 and file.deleted is None for file in self.files
        )


def needs_merge(files: Sequence[DataFileMeta]) -> bool:
    """Whether the rows of a bucket's live files are only right after a merge."""
    if any(file.delete_row_count for file in files):
        return True
    if len(files) == 1:
        return False
    if any(file.level == 0 or file.delete_row_count is None for file in files):
        return True
    return len({file.level for file in files}) > 1


@dataclass(frozen=True)
class RawFile:
    """A data file whose rows are the table's rows as they stand. schema_id: the schema whose names
    its columns have.
    """

    path: str
    schema_id: int

    @property
    def is_parquet(self) -> bool:
        """Not ORC or Avro."""
        return self.path.endswith(".parquet")


@dataclass(frozen=True)
class SplitRead:
    """Reads one split: the columns asked for, filtered. Nothing is opened before `to_batches`.

    Picklable: a task elsewhere reads it with its own connection to the storage. It keeps no
    snapshot from expiry; who plans and reads later holds a lease.
    """

    table: TableState
    split: Split
    columns: tuple[str, ...]
    predicate: Predicate | None = None

    @property
    def raw_files(self) -> tuple[RawFile, ...] | None:
        """The files, when they may be read as they are, each by its format (the filter is then still to be
        applied); None when they must be merged, or rows of them are deleted.
        """
        if self.split.needs_merge or any(file.deleted is not None for file in self.split.files):
            return None
        table, split = self.table, self.split
        return tuple(
            RawFile(table.data_file(split.bucket, file.file_name), file.schema_id)
            for file in split.files
        )

    def to_batches(self, *, use_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Batches in key order, of the columns asked for, in that order. Bounded memory.

        use_threads: decode on several cores; for a reader that has them to itself.
        """
        split = self.split
        with files_of(self.table, split.snapshot_id):
            yield from read_bucket(
                self.table,
                split.bucket,
                split.files,
                self.columns,
                self.predicate,
                merge=split.needs_merge,
                use_threads=use_threads,
            )
