"""Makes the indexes of one data file while it is written: one for each option of a column that the file has.

In: the batches of the file, in its order. Out: the container, or nothing. Columns that the file lacks have no index:
readers take them as unknown. Memory: that of the builders of each kind. Raises nothing of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from widetable.format.file_index.bitmap_index import BitmapBuilder
from widetable.format.file_index.bloom_filter import BloomFilterBuilder
from widetable.format.file_index.index_container import encode_container
from widetable.schema.file_index_options import BITMAP, BLOOM_FILTER, file_index_options
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataType


class ColumnIndexBuilder(Protocol):
    """Collects the values of one column."""

    def add(self, column: pa.Array) -> None: ...

    def build(self) -> bytes: ...


_BUILDERS: Final[Mapping[str, Callable[[Any, DataType], ColumnIndexBuilder]]] = {
    BLOOM_FILTER: BloomFilterBuilder,
    BITMAP: BitmapBuilder,
}


class FileIndexBuilder:
    """The indexes of one file. columns: those that the file has."""

    def __init__(self, schema: TableSchema, columns: Collection[str]) -> None:
        self._builders = {
            (option.column, option.kind): _BUILDERS[option.kind](
                option, schema.field(option.column).type
            )
            for option in file_index_options(schema.options)
            if option.column in columns
        }

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of the file."""
        for (column, _), builder in self._builders.items():
            builder.add(batch.column(column))

    def build(self) -> bytes | None:
        """Return the container; None if the file has no indexed column."""
        indexes: dict[str, dict[str, bytes]] = {}
        for (column, kind), builder in self._builders.items():
            indexes.setdefault(column, {})[kind] = builder.build()
        return encode_container(indexes) if indexes else None
