"""Deletes and updates rows of an append table by a condition: the files that hold them are rewritten or marked.

    matching rows of a file      delete                           update
    all                          the file is removed              rewritten
    some, deletion vectors       the rows are marked              marked, and the new rows in another file; in a
                                                                  bucket with an order the file is rewritten
    some, none                   rewritten without them           rewritten
    none                         the file stays                   the file stays

A delete that has to leave the rows in no file (`rewrite`) does what it does in a table without deletion vectors.
All files change in one OVERWRITE, which readers of changes do not see. It fits if the files are still live with the
same deleted rows; else a compaction or another change came first, and the work is repeated from the newest snapshot.
Rows that are appended meanwhile stay as they are. Memory: a batch of rows, and the row numbers of one file.

Source: Paimon `DeleteFromPaimonTableCommand`, `UpdatePaimonTableCommand`. Raises ConflictError, InvalidError for a
value that does not fit its column, and what reading and writing data files raises; new files are removed then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.deletion_vector import RowNumbers, deleted_rows, encode_vector
from widetable.format.projection import with_columns
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE
from widetable.lsm.append_compaction import numbered
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.rewrite_commit import commit_rewrite
from widetable.operations.queries.table_at import state_at
from widetable.operations.writes.new_values import NewValues
from widetable.read.filters import parse
from widetable.read.predicate import Predicate
from widetable.read.split import Split
from widetable.schema import options as opt
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.write.append.file_columns import file_columns, more_bounded_columns
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState


def change_appended(
    table: OpenTable,
    condition: object,
    by: Identity,
    snapshot_id: int,
    given: Mapping[str, Any] | None = None,
    *,
    dry_run: bool,
    rewrite: bool = False,
) -> CommitResult:
    """Change the rows of a snapshot that match, in one commit. given: what an update sets; None: they are deleted.
    rewrite: rows are not marked, even where the table has deletion vectors. `rows` of the result is their number. One
    schema says what the condition and the values mean, and what is written.
    """
    chosen = state_at(table, snapshot_id)
    state = chosen.state
    predicate = parse(condition, state.schema)
    assert predicate is not None
    values = None if given is None else NewValues.of(state.schema, given)
    with held(state, snapshot_id):
        made, rows = list[CommitMessage](), 0
        try:
            for split in chosen.scan((), predicate).splits():
                change = _Change(state, split, predicate, values, rewrite)
                for file in split.files:
                    numbers = change.matching(file)
                    rows += len(numbers)
                    if len(numbers) and not dry_run:
                        made.append(change.message(file, numbers))
        except BaseException:
            discard(state, made)
            raise
        if not made:
            return CommitResult(False, None, COMMIT_KIND_OVERWRITE, rows)
        return commit_rewrite(table._committer, state, made, by, rows)


@dataclass(frozen=True)
class _Change:
    """The change of the files of one bucket."""

    state: TableState
    split: Split
    predicate: Predicate
    values: NewValues | None
    rewrite: bool

    @property
    def bucket(self) -> BucketId:
        return self.split.bucket

    @property
    def total_buckets(self) -> int:
        return self.state.schema.num_buckets

    def matching(self, file: DataFileMeta) -> RowNumbers:
        """Return the numbers of the rows that match, ascending, without those that are deleted already."""
        numbers = [np.empty(0, np.int64)]
        columns = sorted(self.predicate.columns) or self.state.schema.names[:1]
        of_filter = self.state.schema.arrow_schema(columns)
        at = 0
        for batch in self._all_rows(file, columns):
            rows = with_columns(batch, of_filter)
            place = rows.schema.get_field_index(SEQUENCE_NUMBER)
            own = pa.array(np.arange(at, at + rows.num_rows, dtype=np.int64))
            kept = self.predicate.rows_of(rows.set_column(place, rows.schema.field(place), own))
            numbers.append(kept.column(place).to_numpy(zero_copy_only=False))
            at += rows.num_rows
        return np.setdiff1d(np.concatenate(numbers), self._deleted(file), assume_unique=True)

    def message(self, file: DataFileMeta, numbers: RowNumbers) -> CommitMessage:
        """Make the files of the change of one file. numbers: of the matching rows, one at least."""
        gone = np.union1d(self._deleted(file), numbers)
        marks = self.state.options.get(opt.DELETION_VECTORS_ENABLED) and not self.rewrite
        if self.values is not None:
            marks = marks and self.state.schema.has_free_rows
        if self.values is None and len(gone) == file.row_count:
            return self._message(deleted_files=(file,))
        if not marks:
            stays = np.ones(file.row_count, np.bool_)
            stays[gone if self.values is None else self._deleted(file)] = False
            return self._message(
                deleted_files=(file,), new_files=self._written(file, stays, numbers)
            )
        new_files: tuple[DataFileMeta, ...] = ()
        if self.values is not None:
            is_new = np.zeros(file.row_count, np.bool_)
            is_new[numbers] = True
            new_files = self._written(file, is_new, numbers)
        if len(gone) == file.row_count:
            return self._message(deleted_files=(file,), new_files=new_files)
        vector = encode_vector(gone, wide=self.state.options.get(opt.DELETION_VECTORS_BITMAP64))
        return replace(
            self._message(new_files=new_files), marked_files=(file,), new_vectors=(vector,)
        )

    def _message(
        self,
        new_files: tuple[DataFileMeta, ...] = (),
        deleted_files: tuple[DataFileMeta, ...] = (),
    ) -> CommitMessage:
        return CommitMessage(
            *self.bucket, self.total_buckets, new_files=new_files, deleted_files=deleted_files
        )

    def _written(
        self, file: DataFileMeta, stays: npt.NDArray[np.bool_], numbers: RowNumbers
    ) -> tuple[DataFileMeta, ...]:
        """Write the rows of a file that stay, the matching ones with their new values."""
        with self.state.opened(self.bucket, file) as data:
            carried = [*data.columns, *(self.values.columns if self.values else ())]
        columns = file_columns(self.state, carried)
        source = FILE_SOURCE_APPEND if file.file_source is None else file.file_source
        writer = RollingWriter(
            self.state,
            self.bucket,
            columns,
            level=0,
            file_source=source,
            bounded=more_bounded_columns(self.state, (file,)),
        )
        rows = self._changed(file, columns, stays, numbers)
        return writer.write_all(numbered(rows, (file,)))

    def _changed(
        self,
        file: DataFileMeta,
        columns: Sequence[str],
        stays: npt.NDArray[np.bool_],
        numbers: RowNumbers,
    ) -> Iterator[pa.RecordBatch]:
        of_file = self.state.schema.arrow_schema(columns)
        at = 0
        for batch in self._all_rows(file, columns):
            rows = with_columns(batch, of_file)
            if self.values is not None:
                low, high = np.searchsorted(numbers, [at, at + rows.num_rows])
                rows = self.values.set_in(rows, numbers[low:high] - at)
            yield rows.filter(pa.array(stays[at : at + rows.num_rows]))
            at += rows.num_rows

    def _all_rows(self, file: DataFileMeta, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file, deleted ones included, so that their numbers are those in the file."""
        with self.state.opened(self.bucket, file._replace(deleted=None), columns) as data:
            yield from data.batches()

    def _deleted(self, file: DataFileMeta) -> RowNumbers:
        if file.deleted is None:
            return np.empty(0, np.int64)
        return deleted_rows(self.state.file_io, file.deleted)
