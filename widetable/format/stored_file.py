"""The interface of a data file for its reader, whatever its format: columns with the file's own names and Arrow types,
in groups of rows that can be read separately (Parquet's row groups, ORC's stripes, a whole Avro file).

Openers and the methods raise DamagedError and UnsupportedError naming the file, and the errors of pyarrow and decoders
(`decoding_errors` maps them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from widetable.errors import DamagedError
from widetable.format.binary_row import decode_row
from widetable.format.column_stats import has_bounds
from widetable.format.damaged_file import damaged_file
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.footer_seal import Seal
from widetable.format.key_range import KeyRange, is_bounded
from widetable.format.row_budget import RowBudget
from widetable.messages.counted import counted
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField


@dataclass(frozen=True)
class FileToOpen:
    """A file to open. source: of the size in `meta`. wanted: columns of the table. schema: the one that the file was
    written with.
    The opener may keep the source, and moves its position; it never closes it.
    """

    source: pa.NativeFile
    path: str
    meta: DataFileMeta
    wanted: Sequence[DataField]
    schema: TableSchema

    def check_rows(self, rows: int) -> None:
        """Raise DamagedError where the file has another number of rows than its meta."""
        if rows != self.meta.row_count:
            raise damaged_file(
                self.path,
                counted(rows, "row"),
                f"{counted(self.meta.row_count, 'row')}, as its meta says",
            )

    def check_names(self, names: Sequence[str]) -> None:
        """Raise DamagedError for duplicate or unknown column names. A file may lack columns, so a column with a wrong
        bit in its name would be treated as missing.
        """
        columns = self.schema.by_name
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise self.damaged(f"the column {twice!r} twice", "each column once")
        foreign = [name for name in names if name not in columns and not name.startswith("_")]
        if foreign:
            raise self.damaged(
                f"the column {foreign[0]!r}, which schema {self.schema.id} does not have",
                "columns of the schema that the file was written with",
            )

    def key_range(self, keys: Sequence[DataField]) -> KeyRange:
        """Return the bounds of the keys of all rows, from the meta. keys: the trimmed key of the current schema."""
        if not self.schema.has_key or not all(self._is_bounded(key) for key in keys):
            unknown = (None,) * len(keys)
            return KeyRange(self.meta.row_count, unknown, unknown)
        types, stats = [key.type for key in keys], self.meta.key_stats
        minima = decode_row(stats.min_values, types, f"_KEY_STATS of {self.path}")
        maxima = decode_row(stats.max_values, types, f"_KEY_STATS of {self.path}")
        return KeyRange(self.meta.row_count, minima, maxima)

    def _is_bounded(self, key: DataField) -> bool:
        return has_bounds(key.type) and is_bounded(key, self.schema)

    def damaged(self, finding: str, expected: str) -> DamagedError:
        """Return the error for this file."""
        return damaged_file(self.path, finding, expected)


class StoredFile(Protocol):
    """An open file, which is not thread-safe."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that `batches` can read, including system columns, with the Arrow types of the batches."""
        ...

    @property
    def seal(self) -> Seal:
        """The state of the file's footer."""
        ...

    @property
    def group_rows(self) -> Sequence[int]:
        """How many rows each group has, in file order."""
        ...

    def expect(self, groups: Iterable[int], names: Sequence[str]) -> None:
        """Announce the next reads, in this order, so that remote files are fetched in few requests."""
        ...

    def batches(
        self, group: int, names: Sequence[str], budget: RowBudget, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a group in file order, with at least these columns. budget: the width of rows so far, and
        the approximate limit of a batch in bytes. use_threads: ORC and Avro decode in the caller's thread anyway.
        """
        ...

    def key_ranges(self, keys: Sequence[DataField]) -> list[KeyRange]:
        """Return the bounds of the keys of each group. keys: the trimmed key of the current schema."""
        ...

    def close(self) -> None:
        """Release all resources except the source."""
        ...
