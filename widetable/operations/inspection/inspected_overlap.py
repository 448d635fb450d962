"""How much the files of an append table overlap, by column: what `Table.sort_compact` makes smaller.

    files of a partition, user from .. to       1..9  2..5  4..9        1..3  4..6  7..9
    files that a filter `user = x` may open     1 to 3                  1

For each file the files are counted whose bounds hold its smallest value; the mean and the largest count are shown. A
column is listed as far as files record its bounds, which tables with a key do not. Raises what reading snapshots and
manifests raises.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.value_bounds import value_bounds
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.inspection.inspected_files import Choice, live_at, partition_names
from widetable.operations.inspection.inspected_frame import frame_of_rows, frame_schema
from widetable.write.table_state import TableState

OVERLAP: Final = frame_schema(
    "partition string, column string, files int64, bounded_files int64, mean_depth double, max_depth int64"
)


def overlap(table: OpenTable, choice: Choice) -> pa.Table:
    """List the columns of each partition whose bounds files record."""
    schema, entries = live_at(table, choice)
    state = table._state(schema)
    by_partition: dict[bytes, list[ManifestEntry]] = {}
    for entry in () if schema.has_key else entries:
        by_partition.setdefault(entry.partition, []).append(entry)
    name = partition_names(schema)
    rows = [
        (name(partition), *row)
        for partition, members in by_partition.items()
        for row in _columns(state, [entry.file for entry in members])
    ]
    return frame_of_rows(OVERLAP, sorted(rows, key=lambda row: row[0]), table.path)


def _columns(state: TableState, files: Sequence[DataFileMeta]) -> Iterator[tuple[Any, ...]]:
    """Yield the values behind the partition, for each column in table order."""
    fields = [field for field in state.schema.fields if not field.type.is_nested]
    bounds = [value_bounds(file, state.schema_of(file.schema_id), fields) for file in files]
    for field in fields:
        ranges = [each[field.name] for each in bounds if field.name in each]
        lows = sorted(each.low for each in ranges if each.low is not None)
        highs = sorted(each.high for each in ranges if each.high is not None)
        if lows and len(lows) == len(highs):
            depths = [bisect_right(lows, low) - bisect_left(highs, low) for low in lows]
            mean = sum(depths) / len(depths)
            yield field.name, len(files), len(lows), mean, max(depths)
