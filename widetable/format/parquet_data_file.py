"""A Parquet data file as a stored file (stored_file.py): row groups, the footer's seal, int96.

Source: format.md section 7. Raises the errors of `stored_file`.

The order of the first steps matters: the seal is checked before Arrow parses the footer (it may end
the process), counts and names before columns are matched, and the unit of int96 comes last, as it
depends on the file's columns. The footer is read twice, by `seal_of` and by Arrow;
a file with int96 is opened again with the parsed footer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from widetable.errors import UnsupportedError
from widetable.format.footer_seal import Seal, seal_of
from widetable.format.key_range import KeyRange
from widetable.format.parquet_leaves import StoredLeaf, stored_leaves
from widetable.format.parquet_statistics import row_group_key_ranges
from widetable.format.row_budget import RowBudget, row_bytes, rows_within
from widetable.format.row_group_width import Leaf, group_bytes, leaves_of
from widetable.format.stored_file import FileToOpen
from widetable.kernels.arrow_buffers import one_array
from widetable.schema.table_schema import TableSchema, file_column
from widetable.schema.types import DataField, timestamp_unit
from widetable.storage.remote.ranged_input import RangedFile
from widetable.storage.remote.read_ahead import Range

_ARROW: Final = "parquet-cpp-arrow"
# Arrow's memory for a column that it reads batch by batch: the chunk, a page of it, decoders, buffers. Chunks that
# take less are read at once, so many columns at a time.
_READER_BYTES: Final = 16 << 10
_COLUMNS_AT_ONCE: Final = 256
# So many rows are read to estimate their width, where the footer does not show it.
_PROBED_ROWS: Final = 256


class ParquetDataFile:
    """A StoredFile in the Parquet format; creating it reads the footer only.

    Checksums of pages are verified where the writer made them. pre_buffer is off:
    a remote source reads ahead by `expect`, and a local one needs no second buffer.
    """

    def __init__(self, file: FileToOpen) -> None:
        self._file = file
        self.seal: Final = seal_of(file.source)
        if self.seal is Seal.BROKEN:  # before Arrow sees the footer
            raise file.damaged("a footer with a wrong checksum", "the footer as written")
        parquet = self._open()
        file.check_rows(parquet.metadata.num_rows)
        schema = parquet.schema_arrow  # each access creates a new one
        file.check_names(schema.names)
        # Columns with an int96 of another client, whose times may exceed int64 nanoseconds.
        self._far_names = frozenset[str]()
        names = _int96_columns(stored_leaves(parquet.metadata), frozenset(schema.names))
        if names:
            unit = _int96_unit(names, file.wanted, file.schema)
            # Times that Arrow wrote were nanoseconds.
            is_wide = unit == "ns" and not (parquet.metadata.created_by or "").startswith(_ARROW)
            if is_wide:
                self._far_names = frozenset(names)
                self._in_micros: Final = self._open(parquet.metadata, "us")
            parquet = self._open(parquet.metadata, unit)
            schema = parquet.schema_arrow
        self.schema: Final = schema
        self._parquet: Final = parquet
        self._leaves: dict[Sequence[str], tuple[Leaf, ...]] = {}

    @property
    def group_rows(self) -> list[int]:
        metadata = self._parquet.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def expect(self, groups: Iterable[int], names: Sequence[str]) -> None:
        if isinstance(self._file.source, RangedFile):
            chunks = (self._chunks(group, names) for group in groups)
            self._file.source.expect([each for ranges in chunks for each in ranges])

    def batches(
        self, group: int, names: Sequence[str], budget: RowBudget, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        # The number holds for the whole group: pyarrow's iterator takes it once.
        rows = min(budget.rows, self._rows_at_once(group, names, budget))
        if not self._far_names and self._is_small(group, names):
            whole = self._whole(group, names, use_threads=use_threads)
            yield from (whole.slice(start, rows) for start in range(0, whole.num_rows, rows))
            return
        stored_batches = self._parquet.iter_batches(
            rows, row_groups=[group], columns=names, use_threads=use_threads
        )
        far_names = [name for name in names if name in self._far_names]
        if not far_names:
            yield from stored_batches
            return
        # 64-bit nanoseconds end in the years 1677 and 2262, and Arrow wraps around silently. So the rows are read once
        # more in microseconds, and cast to nanoseconds with a check.
        micros = self._in_micros.iter_batches(
            rows, row_groups=[group], columns=far_names, use_threads=False
        )
        for batch in stored_batches:
            _check_times(next(micros), batch, self._file.path)
            yield batch

    def _is_small(self, group: int, names: Sequence[str]) -> bool:
        """Whether the columns of a group take less memory than their readers."""
        leaves = self._leaves_in(names)
        most = len(leaves) * _READER_BYTES
        size = group_bytes(self._parquet.metadata, group, leaves, most)
        return len(leaves) > _COLUMNS_AT_ONCE and not size.hidden and size.bytes <= most

    def _whole(self, group: int, names: Sequence[str], *, use_threads: bool) -> pa.RecordBatch:
        """Read all rows of a group. The readers of some columns are released before those of the next are created."""
        arrays: list[pa.Array] = []
        for first in range(0, len(names), _COLUMNS_AT_ONCE):
            part = list(names[first : first + _COLUMNS_AT_ONCE])
            table = self._parquet.read_row_group(group, columns=part, use_threads=use_threads)
            arrays += (one_array(table.column(name)) for name in part)
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def key_ranges(self, keys: Sequence[DataField]) -> list[KeyRange]:
        return row_group_key_ranges(self._parquet, self._file, keys)

    def close(self) -> None:
        self._parquet.close()

    def _open(
        self, metadata: pq.FileMetaData | None = None, int96_unit: str | None = None
    ) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._file.source,
            metadata=metadata,
            pre_buffer=False,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit=int96_unit,
        )

    def _rows_at_once(self, group: int, names: Sequence[str], budget: RowBudget) -> int:
        """Return the rows of a batch, by the sizes in the footer, and by the first rows where it has none.

        Columns whose size the footer hides are probed: their first 256 rows are decoded, because
        nothing else shows how wide texts with a dictionary are.
        """
        metadata = self._parquet.metadata
        size = group_bytes(metadata, group, self._leaves_in(names), budget.budget_bytes)
        width = size.bytes / max(metadata.row_group(group).num_rows, 1)
        if size.hidden:
            first = self._parquet.iter_batches(
                _PROBED_ROWS, row_groups=[group], columns=size.hidden, use_threads=False
            )
            width += row_bytes(next(first))
        return rows_within(budget.budget_bytes, width, budget.most_rows)

    def _leaves_in(self, names: Sequence[str]) -> tuple[Leaf, ...]:
        """Return the leaves of columns, cached by names: a scan reads the same columns in every row group."""
        names = tuple(names)
        if names not in self._leaves:
            self._leaves[names] = leaves_of(stored_leaves(self._parquet.metadata), frozenset(names))
        return self._leaves[names]

    def _chunks(self, group: int, names: Sequence[str]) -> list[Range]:
        """Return the positions of the column chunks."""
        row_group = self._parquet.metadata.row_group(group)
        chunks = [row_group.column(leaf.number) for leaf in self._leaves_in(names)]
        # Some writers record 0 where there is no dictionary.
        starts = [
            min(c.dictionary_page_offset or c.data_page_offset, c.data_page_offset) for c in chunks
        ]
        return [
            Range(at, at + c.total_compressed_size) for at, c in zip(starts, chunks, strict=True)
        ]


def _check_times(micros: pa.RecordBatch, nanos: pa.RecordBatch, path: str) -> None:
    """Raise UnsupportedError for a time that nanoseconds cannot hold: Arrow lets it wrap around."""
    for name in micros.schema.names:
        try:
            micros.column(name).cast(nanos.schema.field(name).type)
        except pa.ArrowInvalid as cause:
            raise times_beyond(name, path, str(cause)) from cause


def times_beyond(name: str, path: str, finding: str) -> UnsupportedError:
    """Return the error for a column with times that 64 bits of nanoseconds do not hold."""
    return UnsupportedError(
        f"column {name!r} of {path}",
        found=f"a time outside of the years 1677 to 2262: {finding}",
        expected="times that 64 bits of nanoseconds hold",
        action="Read the column with another client, or leave it out.",
    )


def _int96_columns(leaves: Iterable[StoredLeaf], names: Collection[str]) -> list[str]:
    """Return those of these columns that contain an int96. As names may have dots, the result may include columns with
    the same beginning.
    """
    paths = (leaf.path.split(".") for leaf in leaves if leaf.physical_type == "INT96")
    starts = dict.fromkeys(start for path in paths for start in accumulate(path, "{}.{}".format))
    return [start for start in starts if start in names]


def _int96_unit(names: Sequence[str], wanted: Sequence[DataField], file_schema: TableSchema) -> str:
    """Return the unit in which to read these columns of int96: the finest that a wanted one needs.

    int96 has no unit of its own; in nanoseconds, years before 1678 and after 2261 would be wrong.
    """
    digits = 0
    for field in wanted:
        stored = file_column(field, file_schema)
        if stored is not None and stored.name in names:
            digits = max(digits, 9 if stored.type.is_nested else stored.type.precision or 0)
    return timestamp_unit(digits)
