"""A Parquet data file as a stored file (stored_file.py): row groups, the footer's seal, int96.

Source: format.md section 7. Raises as `stored_file` says.

The order of the first steps matters: the seal before Arrow parses the footer (it may end the
process), counts and names before any column is looked for, and the unit of int96 last, as it
takes the file's columns to choose it. The footer is read twice, by `seal_of` and by Arrow;
where int96 is there the file is opened again with the footer that was parsed.
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
# What Arrow holds for a column that it reads on and on: the chunk, a page of it, decoders, buffers. A chunk that
# takes less is better read at once, so many columns at a time.
_READER_BYTES: Final = 16 << 10
_COLUMNS_AT_ONCE: Final = 256
# So many rows show how wide they are, where the footer does not say.
_PROBED_ROWS: Final = 256


class ParquetDataFile:
    """A StoredFile; reads the footer only when it is made.

    Pages have checksums where the writer made them, and these are verified. pre_buffer is off:
    a far source reads ahead by `expect`, and a near one needs no second buffer.
    """

    def __init__(self, file: FileToOpen) -> None:
        self._file = file
        self.seal: Final = seal_of(file.source)
        if self.seal is Seal.BROKEN:  # before Arrow sees the footer
            raise file.damaged("a footer with a wrong checksum", "the footer as written")
        parquet = self._opened()
        file.check_rows(parquet.metadata.num_rows)
        schema = parquet.schema_arrow  # made anew each time that it is asked for
        file.check_names(schema.names)
        # Columns with an int96 of another client, whose times may lie outside of what int64 nanoseconds hold.
        self._far_names = frozenset[str]()
        names = _int96_columns(stored_leaves(parquet.metadata), frozenset(schema.names))
        if names:
            unit = _int96_unit(names, file.wanted, file.schema)
            # What Arrow wrote came from nanoseconds.
            is_wide = unit == "ns" and not (parquet.metadata.created_by or "").startswith(_ARROW)
            if is_wide:
                self._far_names = frozenset(names)
                self._in_micros: Final = self._opened(parquet.metadata, "us")
            parquet = self._opened(parquet.metadata, unit)
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
            self._file.source.expect([each for found in chunks for each in found])

    def batches(
        self, group: int, names: Sequence[str], budget: RowBudget, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        # For the whole group: pyarrow's iterator takes the number once.
        rows = min(budget.rows, self._rows_at_once(group, names, budget.budget_bytes))
        if not self._far_names and self._is_small(group, names):
            whole = self._whole(group, names, use_threads=use_threads)
            yield from (whole.slice(start, rows) for start in range(0, whole.num_rows, rows))
            return
        found = self._parquet.iter_batches(
            rows, row_groups=[group], columns=names, use_threads=use_threads
        )
        far_names = [name for name in names if name in self._far_names]
        if not far_names:
            yield from found
            return
        # Years of 64-bit nanoseconds end in 1677 and 2262, and Arrow wraps around without a word. So the same rows are
        # read once more in microseconds, and cast to nanoseconds with a check.
        micros = self._in_micros.iter_batches(
            rows, row_groups=[group], columns=far_names, use_threads=False
        )
        for batch in found:
            _check_times(next(micros), batch, self._file.path)
            yield batch

    def _is_small(self, group: int, names: Sequence[str]) -> bool:
        """Whether the columns of a group take less than their readers."""
        leaves = self._leaves_in(names)
        most = len(leaves) * _READER_BYTES
        size = group_bytes(self._parquet.metadata, group, leaves, most)
        return len(leaves) > _COLUMNS_AT_ONCE and not size.hidden and size.bytes <= most

    def _whole(self, group: int, names: Sequence[str], *, use_threads: bool) -> pa.RecordBatch:
        """All rows of a group. The readers of some columns are gone when those of the next ones come."""
        arrays: list[pa.Array] = []
        for first in range(0, len(names), _COLUMNS_AT_ONCE):
            part = list(names[first : first + _COLUMNS_AT_ONCE])
            found = self._parquet.read_row_group(group, columns=part, use_threads=use_threads)
            arrays += (one_array(found.column(name)) for name in part)
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def key_ranges(self, keys: Sequence[DataField]) -> list[KeyRange]:
        return row_group_key_ranges(self._parquet, self._file, keys)

    def close(self) -> None:
        self._parquet.close()

    def _opened(
        self, metadata: pq.FileMetaData | None = None, int96_unit: str | None = None
    ) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._file.source,
            metadata=metadata,
            pre_buffer=False,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit=int96_unit,
        )

    def _rows_at_once(self, group: int, names: Sequence[str], batch_bytes: int) -> int:
        """By what the footer says of a row group, and by its first rows where it does not say.

        Columns whose size the footer hides are probed: their first 256 rows are decoded, for
        nothing else tells how wide texts behind a dictionary are.
        """
        metadata = self._parquet.metadata
        size = group_bytes(metadata, group, self._leaves_in(names), batch_bytes)
        width = size.bytes / max(metadata.row_group(group).num_rows, 1)
        if size.hidden:
            first = self._parquet.iter_batches(
                _PROBED_ROWS, row_groups=[group], columns=size.hidden, use_threads=False
            )
            width += row_bytes(next(first))
        return rows_within(batch_bytes, width)

    def _leaves_in(self, names: Sequence[str]) -> tuple[Leaf, ...]:
        """Kept by the names: a scan asks for the same columns in every row group."""
        names = tuple(names)
        if names not in self._leaves:
            self._leaves[names] = leaves_of(stored_leaves(self._parquet.metadata), frozenset(names))
        return self._leaves[names]

    def _chunks(self, group: int, names: Sequence[str]) -> list[Range]:
        """Where the column chunks lie."""
        row_group = self._parquet.metadata.row_group(group)
        chunks = [row_group.column(leaf.number) for leaf in self._leaves_in(names)]
        # Some writers say 0 where there is no dictionary.
        starts = [
            min(c.dictionary_page_offset or c.data_page_offset, c.data_page_offset) for c in chunks
        ]
        return [
            Range(at, at + c.total_compressed_size) for at, c in zip(starts, chunks, strict=True)
        ]


def _check_times(micros: pa.RecordBatch, nanos: pa.RecordBatch, path: str) -> None:
    """Raises UnsupportedError for a time that nanoseconds cannot hold: Arrow lets it wrap around."""
    for name in micros.schema.names:
        try:
            micros.column(name).cast(nanos.schema.field(name).type)
        except pa.ArrowInvalid as cause:
            raise times_beyond(name, path, str(cause)) from cause


def times_beyond(name: str, path: str, found: str) -> UnsupportedError:
    """The error for a column with times that 64 bits of nanoseconds do not hold."""
    return UnsupportedError(
        f"column {name!r} of {path}",
        found=f"a time outside of the years 1677 to 2262: {found}",
        expected="times that 64 bits of nanoseconds hold",
        action="Read the column with another client, or leave it out.",
    )


def _int96_columns(leaves: Iterable[StoredLeaf], names: Collection[str]) -> list[str]:
    """Those of these columns with an int96 in them. Names may have dots: perhaps others that begin alike, too."""
    paths = (leaf.path.split(".") for leaf in leaves if leaf.physical_type == "INT96")
    starts = dict.fromkeys(start for path in paths for start in accumulate(path, "{}.{}".format))
    return [start for start in starts if start in names]


def _int96_unit(names: Sequence[str], wanted: Sequence[DataField], file_schema: TableSchema) -> str:
    """The unit in which to read these columns of int96: the finest that a wanted one needs.

    int96 has no unit of its own; read as nanoseconds, years before 1678 and after 2261 would come out wrong.
    """
    digits = 0
    for field in wanted:
        stored = file_column(field, file_schema)
        if stored is not None and stored.name in names:
            digits = max(digits, 9 if stored.type.is_nested else stored.type.precision or 0)
    return timestamp_unit(digits)
