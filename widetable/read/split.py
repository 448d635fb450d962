"""A split: the files of one bucket that a reader needs, and the reader of them. Both are picklable.

A split needs no merge when its files are one sorted run without deletes (format.md T1, T2): a
single file, or several files of one level >= 1, whose writers counted no delete. Then row kinds are
ignored, as in Paimon's clients. Raises what `merge_read` raises; `expired` defines the error for a missing file.

    files of the bucket                               merge     raw files
    one, of any level, no deletes                     no        that one
    several of level 5, no deletes                    no        these: their key ranges are disjoint
    one of level 0 and one of level 5                 yes       -
    one with deletes that its writer counted          yes       -: a scan must leave these rows out
    one with rows in a deletion vector                no        -: reading leaves these rows out
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
    """Files of one bucket to read. snapshot_id: the snapshot with the files. files: without those that the filter rules
    out. needs_merge: that of the whole bucket.

    For a barrier, snapshot_id is the base's, and files may include those of later snapshots; it
    only decides which snapshot is checked when a file is missing.
    """

    snapshot_id: int
    bucket: BucketId
    files: tuple[DataFileMeta, ...]
    needs_merge: bool

    @property
    def rows(self) -> int:
        """The number of rows in the files: at least that of the merged split."""
        return sum(file.row_count for file in self.files)

    @property
    def has_exact_rows(self) -> bool:
        """Whether `rows` is exact: nothing is merged, and no row is a delete.

        This is stricter than `needs_merge`: a writer that did not count its deletes (None) may
        have written some.
        """
        return not self.needs_merge and all(
            file.delete_row_count == 0 and file.deleted is None for file in self.files
        )


def needs_merge(files: Sequence[DataFileMeta]) -> bool:
    """Return whether the rows of a bucket's live files are correct only after a merge."""
    if any(file.delete_row_count for file in files):
        return True
    if len(files) == 1:
        return False
    if any(file.level == 0 or file.delete_row_count is None for file in files):
        return True
    return len({file.level for file in files}) > 1


@dataclass(frozen=True)
class RawFile:
    """A data file whose rows are the table's rows without a merge. schema_id: the schema that names its columns."""

    path: str
    schema_id: int

    @property
    def is_parquet(self) -> bool:
        """Whether the file is Parquet, not ORC or Avro."""
        return self.path.endswith(".parquet")


@dataclass(frozen=True)
class SplitRead:
    """Reads the requested columns of one split, filtered. Nothing is opened before `to_batches`.

    Picklable: a task elsewhere reads it with its own connection to the storage. It keeps no
    snapshot from expiry; a reader that plans and reads later holds a lease.

    Attributes
    ----------
    table : TableState
        The table.
    split : Split
        The files.
    columns : tuple of str
        The columns, in the order wanted.
    predicate : Predicate or None
        The filter.
    """

    table: TableState
    split: Split
    columns: tuple[str, ...]
    predicate: Predicate | None = None

    @property
    def raw_files(self) -> tuple[RawFile, ...] | None:
        """The files, if they may be read directly, each by its format (the caller then applies the filter). None if
        they must be merged, or some of their rows are deleted.
        """
        if self.split.needs_merge or any(file.deleted is not None for file in self.split.files):
            return None
        table, split = self.table, self.split
        return tuple(
            RawFile(table.data_file(split.bucket, file.file_name), file.schema_id)
            for file in split.files
        )

    def to_batches(self, *, use_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield batches in key order, in bounded memory.

        Parameters
        ----------
        use_threads : bool, default False
            Decode on several cores; for a reader that does not share them.

        Yields
        ------
        pyarrow.RecordBatch
            Rows with the requested columns in their order.
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
