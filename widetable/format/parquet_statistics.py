"""Key ranges of a Parquet file's row groups, by which a reader of some keys skips groups.

A file of one row group has the range of its meta; the statistics in the footer are used only with several groups, as
pyarrow ends the process when statistics are damaged. Values are plain (`plain_value`). A bound is
None where it is unknown (no statistics, as for int96, or another type than the table's). No I/O; damage raises
DamagedError, ValueError or LookupError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq

from widetable.format.column_stats import has_bounds
from widetable.format.key_range import KeyRange, is_bounded
from widetable.format.parquet_leaves import stored_leaves
from widetable.format.plain_value import PlainValue
from widetable.format.stored_file import FileToOpen
from widetable.schema.table_schema import TableSchema, file_column
from widetable.schema.types import DataField, DataType, arrow_type


def row_group_key_ranges(
    parquet: pq.ParquetFile, file: FileToOpen, keys: Sequence[DataField]
) -> list[KeyRange]:
    """Return one range per row group, in file order. keys: the trimmed key of the current schema.

    Each key column is bounded on its own, not the key as a whole: with two key columns the range
    is a box, which also contains keys that the group cannot have. Only the footer in memory is
    read.
    """
    metadata = parquet.metadata
    if metadata.num_row_groups == 1 and all(has_bounds(key.type) for key in keys):
        return [file.key_range(keys)]
    indices = [_leaf(parquet, key, file.schema) for key in keys]
    ranges = []
    for group_index in range(metadata.num_row_groups):
        group = metadata.row_group(group_index)
        bounds = [
            (None, None) if index is None else _bounds(group.column(index), key.type)
            for index, key in zip(indices, keys, strict=True)
        ]
        minima = tuple(low for low, _ in bounds)
        maxima = tuple(high for _, high in bounds)
        ranges.append(KeyRange(group.num_rows, minima, maxima))
    return ranges


def _leaf(parquet: pq.ParquetFile, key: DataField, file_schema: TableSchema) -> int | None:
    """Return the Parquet column whose statistics bound the key column; None where they might not.

    The type in the file must be the column's own: a bound of another type, such as an INT in a
    column that is BIGINT now, would be compared wrongly.
    """
    stored = file_column(key, file_schema)
    if stored is None or not is_bounded(key, file_schema):
        return None
    arrow = parquet.schema_arrow
    index = arrow.get_field_index(stored.name)
    if index < 0 or arrow.field(index).type != arrow_type(key.type):
        return None
    paths = [leaf.path for leaf in stored_leaves(parquet.metadata)]
    # A column "a.b" and the field b of a column a have the same path.
    return paths.index(stored.name) if paths.count(stored.name) == 1 else None


def _bounds(chunk: pq.ColumnChunkMetaData, kind: DataType) -> tuple[PlainValue, PlainValue]:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return None, None
    return _plain(statistics.min_raw, kind), _plain(statistics.max_raw, kind)


def _plain(raw: Any, kind: DataType) -> PlainValue:
    """Return a plain value. Raw values have the unit of the Arrow type, as `_leaf` checks."""
    is_wide = kind.root == "DECIMAL" and isinstance(raw, bytes)
    value: PlainValue = int.from_bytes(raw, "big", signed=True) if is_wide else raw
    return value
