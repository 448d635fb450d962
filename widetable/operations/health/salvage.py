"""Salvage: copy the readable rows of a damaged data file into new files, and name exactly the rows that are lost.

In: the entry of a damaged file. Out: new files of the same level and sequence numbers, with their own statistics, and
the lost rows, row group by row group. A row group is kept if it decodes as a whole, its keys ascend after those kept
before (values of an append table lie within the bounds of the file) and hash to the bucket, and its keys and sequence
numbers lie within the ranges of the file's meta. So no bytes of another file are taken for rows. Rows that wait for a
bucket have neither order nor numbers: they must decode, no more.

    footer                          what is kept               what is named as lost
    cannot be read                  nothing                    all rows, by the keys of the file's meta
    sealed, and whole (0023)        groups that pass           each other group, by its statistics
    no seal, few groups lost        groups that pass           each other group, if they add up to what is missing
    no seal, many lost              groups that pass           one range for all of them, by the file's meta

Memory: the rows of one row group. The new files hold rows of the old one unchanged: nothing is merged.

Raises UnsupportedError, StorageError; new files are removed then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from widetable.errors import DamagedError, NotFoundError
from widetable.format.binary_row import decode_row
from widetable.format.bucket_hash import bucket_ids
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile
from widetable.format.deletion_vector import deleted_rows
from widetable.format.footer_seal import Seal
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.plain_value import plain_column
from widetable.format.printed_value import printed
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.key_lanes import key_lanes
from widetable.lsm.append_compaction import numbered
from widetable.lsm.sorted_run import key_types, sort_key
from widetable.operations.health.appended_file import fit
from widetable.operations.health.file_audit import ascends, key_row
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.schema.types import DataType
from widetable.storage.paths import POSTPONED
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState


@dataclass(frozen=True)
class LostRows:
    """Rows of a damaged file that cannot be read any more.

    Where most of a file is lost, the keys are those of the file.

    Attributes
    ----------
    rows : int
        How many rows.
    first_key, last_key : dict of str to any
        Column to printed value, for each key column by itself; columns of which nothing is known are absent.
    min_sequence_number, max_sequence_number : int
        The range of sequence numbers, within that of the file.
    """

    __module__ = "widetable"

    rows: int
    first_key: Mapping[str, Any]
    last_key: Mapping[str, Any]
    min_sequence_number: int
    max_sequence_number: int


@dataclass(frozen=True)
class Salvaged:
    """Holds the result for one file. files: the new files; none in a dry run, or if nothing can be read. kept_rows: how
    many rows can be read.
    """

    files: tuple[DataFileMeta, ...]
    kept_rows: int
    lost: tuple[LostRows, ...]


def salvage(table: TableState, entry: ManifestEntry, *, dry_run: bool) -> Salvaged:
    """Read the row groups of a damaged file that can be read, and write them to new files unless it is a dry run."""
    try:
        data = table.opened(entry.bucket_id, entry.file)
    except (DamagedError, NotFoundError):
        return Salvaged((), 0, (_whole(table, entry.file),))
    with data:
        one = _Salvage(table, entry, data)
        try:
            return one.run(dry_run=dry_run)
        except BaseException:
            one.writer.abort()
            raise


class _Salvage:
    """Reads one file, group by group in order, and compares each group with the last key that was kept."""

    def __init__(self, table: TableState, entry: ManifestEntry, data: DataFile) -> None:
        file = entry.file
        self.writer: Final = RollingWriter.in_place_of(table, entry.bucket_id, file, data.columns)
        self._table = table
        self._entry = entry
        self._file = file
        self._data = data
        self._key = table.schema.trimmed_primary_key
        self._types = key_types(table.schema)
        self._bucket = entry.bucket
        # The file states the number of buckets with which it was written: the table may have another one by now.
        self._count = entry.total_buckets
        self._last: pa.RecordBatch | None = None
        # For each row group, the number of rows that no deletion vector deletes.
        places = () if file.deleted is None else deleted_rows(table.file_io, file.deleted)
        ends = np.cumsum([0, *data.row_group_rows])
        self._left: Final = np.diff(ends - np.searchsorted(places, ends)).tolist()

    def run(self, *, dry_run: bool) -> Salvaged:
        lost, kept_rows = [], 0
        for index, left in enumerate(self._left):
            rows = self._group(index) if left else []
            if rows is None:
                lost.append(index)
                continue
            kept_rows += sum(batch.num_rows for batch in rows)
            if not dry_run:
                for batch in self._own_numbers(rows):
                    self.writer.write(batch)
        files = () if dry_run else self.writer.finish()
        lost_rows = self._file.row_count - self._data.deleted_rows - kept_rows
        if self._is_believed(lost, lost_rows):
            return Salvaged(files, kept_rows, self._named_by_statistics(lost))
        named = (replace(_whole(self._table, self._file), rows=lost_rows),) if lost_rows else ()
        return Salvaged(files, kept_rows, named)

    def _own_numbers(self, rows: Sequence[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Return the rows with numbers: a file of an append table has them in its meta only."""
        return rows if self._table.schema.has_key else numbered(iter(rows), (self._file,))

    def _is_believed(self, lost: Sequence[int], lost_rows: int) -> bool:
        """Whether the footer's statistics may name the lost rows. Damaged statistics make pyarrow end the process."""
        if self._data.seal is Seal.WHOLE:
            return True
        groups = self._left
        return 2 * len(lost) < len(groups) and sum(groups[i] for i in lost) == lost_rows

    def _named_by_statistics(self, lost: Sequence[int]) -> tuple[LostRows, ...]:
        ranges = self._data.row_group_key_ranges() if lost else []
        numbers = self._file.min_sequence_number, self._file.max_sequence_number
        return tuple(
            LostRows(
                self._left[index],
                self._named(ranges[index].minima),
                self._named(ranges[index].maxima),
                *numbers,
            )
            for index in lost
        )

    def _group(self, index: int) -> list[pa.RecordBatch] | None:
        """Return the rows of a row group, or None if they are damaged."""
        try:
            rows = [b for b in self._data.batches(row_groups=[index]) if b.num_rows]
        except DamagedError:
            return None
        if not rows or not self._fits(rows):
            return None
        self._last = rows[-1].slice(rows[-1].num_rows - 1)
        return rows

    def _fits(self, rows: Sequence[pa.RecordBatch]) -> bool:
        """Whether rows that decode belong here: bytes of another file, or of another part of this one, may decode as
        well. Keys ascend, so only the first and the last are compared with the range of the meta.
        """
        if not self._table.schema.has_key:
            return fit(self._table, self._entry, rows)
        if self._bucket == POSTPONED:
            return True
        pieces = rows if self._last is None else [self._last, *rows]
        keys = [pa.chunked_array([piece.column(name) for piece in pieces]) for name in self._key]
        if not ascends(key_lanes(keys)).all():
            return False
        types, schema = self._types, self._table.schema
        if any((bucket_ids(piece, schema, self._count) != self._bucket).any() for piece in rows):
            return False
        low, high = self._file.min_key, self._file.max_key
        first = key_row(rows[0].slice(0, 1), schema)
        last = key_row(rows[-1].slice(rows[-1].num_rows - 1), schema)
        if sort_key(first, types) < sort_key(low, types):
            return False
        if sort_key(last, types) > sort_key(high, types):
            return False
        numbers = [fixed_values(piece.column(SEQUENCE_NUMBER), np.int64) for piece in rows]
        return (
            min(int(of_piece.min()) for of_piece in numbers) >= self._file.min_sequence_number
            and max(int(of_piece.max()) for of_piece in numbers) <= self._file.max_sequence_number
        )

    def _named(self, bounds: Sequence[Any]) -> dict[str, Any]:
        return _printed_key(self._key, bounds, self._types)


def _whole(table: TableState, file: DataFileMeta) -> LostRows:
    """Name all rows of a file that are not deleted, by its meta."""
    types, key = key_types(table.schema), table.schema.trimmed_primary_key
    first, last = (
        _printed_key(key, decode_row(row, types, file.file_name), types)
        for row in (file.min_key, file.max_key)
    )
    numbers = file.min_sequence_number, file.max_sequence_number
    deleted = 0 if file.deleted is None else file.deleted.rows or 0
    return LostRows(file.row_count - deleted, first, last, *numbers)


def _printed_key(
    names: Sequence[str], bounds: Sequence[Any], types: Sequence[DataType]
) -> dict[str, Any]:
    """Print the known bounds. bounds: plain values, None if unknown."""
    return {
        name: printed(plain_column([bound], kind))[0]
        for name, bound, kind in zip(names, bounds, types, strict=True)
        if bound is not None
    }
