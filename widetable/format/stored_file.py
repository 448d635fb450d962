"""What a data file is to its reader, whatever its format: columns of the file's own names and Arrow types, in groups of
rows that can be read each by itself (Parquet's row groups, ORC's stripes, an Avro file as a whole).

Openers and the methods raise DamagedError and UnsupportedError naming the file, and what pyarrow and decoders raise
(`decoding_errors` maps it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from widetable.errors import DamagedError
from widetable.format.binary_row import decode_row
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
    """source: of the size that `meta` says. wanted: columns of the table. schema: the one that the file was written
    with.
    The opener may keep the source, and moves its position; it never closes it.
    """

    source: pa.NativeFile
    path: str
    meta: DataFileMeta
    wanted: Sequence[DataField]
    schema: TableSchema

    def check_rows(self, rows: int) -> None:
        """Raises DamagedError where the file counts others than its meta."""
        if rows != self.meta.row_count:
            raise damaged_file(
                self.path,
                counted(rows, "row"),
                f"{counted(self.meta.row_count, 'row')}, as its meta says",
            )

    def check_names(self, names: Sequence[str]) -> None:
        """A file may lack columns, so one whose name has a wrong bit would be taken for one that it does not have."""
        known = self.schema.by_name
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise self.damaged(f"the column {twice!r} twice", "each column once")
        foreign = [name for name in names if name not in known and not name.startswith("_")]
        if foreign:
            raise self.damaged(
                f"the column {foreign[0]!r}, which schema {self.schema.id} does not have",
                "columns of the schema that the file was written with",
            )

    def key_range(self, keys: Sequence[DataField]) -> KeyRange:
        """What holds the keys of all rows, as the meta says. keys: the trimmed key of the current schema."""
        if not all(is_bounded(key, self.schema) for key in keys):
            unknown = (None,) * len(keys)
            return KeyRange(self.meta.row_count, unknown, unknown)
        types, stats = [key.type for key in keys], self.meta.key_stats
        minima = decode_row(stats.min_values, types, f"_KEY_STATS of {self.path}")
        maxima = decode_row(stats.max_values, types, f"_KEY_STATS of {self.path}")
        return KeyRange(self.meta.row_count, minima, maxima)

    def damaged(self, found: str, expected: str) -> DamagedError:
        """The error for this file."""
        return damaged_file(self.path, found, expected)


class StoredFile(Protocol):
    """An open file. Not for several threads at once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that `batches` can give, system columns among them, with the Arrow types that it gives."""
        ...

    @property
    def seal(self) -> Seal:
        """What is known of the part that says where everything is."""
        ...

    @property
    def group_rows(self) -> Sequence[int]:
        """How many rows each group has, in file order."""
        ...

    def expect(self, groups: Iterable[int], names: Sequence[str]) -> None:
        """What will be read next, in this order: far files are fetched in few requests then."""
        ...

    def batches(
        self, group: int, names: Sequence[str], budget: RowBudget, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """All rows of a group in file order; the columns of these names at least. budget: what rows were wide so far,
        and how many bytes a batch has at most, about. use_threads: ORC and Avro decode in the caller's thread.
        """
        ...

    def key_ranges(self, keys: Sequence[DataField]) -> list[KeyRange]:
        """One per group: what holds the keys of all its rows. keys: the trimmed key of the current schema."""
        ...

    def close(self) -> None:
        """Let go of what is held besides the source."""
        ...
