"""Key ranges of files and row groups, and the keys of a batch that may be in each of them.

Source: format.md section 4 (`min_key`, `max_key`) and Parquet's statistics. Values only, no I/O. In: smallest and
largest key of each range; an unknown bound excludes no key. Out: slices of key batches. Raises DamagedError for a
`min_key` or `max_key` that does not decode.

    ranges   10..19   20..29   unknown          keys   5 12 19 25 40
    starts    1        3        0               keys 1 : 3 (12 and 19) may be in the first, 3 : 4 in the second,
    ends      3        4        5               all of them in the third
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from widetable.format.binary_row import decode_row
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.key_range import KeyRange
from widetable.format.plain_value import PlainValue, plain_column
from widetable.kernels.key_match import slices_in_ranges
from widetable.lsm.sorted_run import key_types
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataType


class Share(NamedTuple):
    """The keys that the range with the index `place` may have: a slice of the key batch from `start` on."""

    place: int
    start: int
    keys: pa.RecordBatch


@dataclass(frozen=True)
class KeyBounds:
    """The bounds of ranges. lower, upper: one array per column of the trimmed key, one row per range; null: unknown."""

    lower: tuple[pa.Array, ...]
    upper: tuple[pa.Array, ...]

    def shares(self, keys: pa.RecordBatch) -> list[Share]:
        """Return the shares of the ranges, in order, that may have keys of a key batch (also of leading columns only).

        If columns are bounded separately (row groups), a share may include a key outside of its range.
        """
        starts, ends = slices_in_ranges(
            keys.columns, self.lower[: keys.num_columns], self.upper[: keys.num_columns]
        )
        return [
            Share(index, start, keys.slice(start, int(ends[index]) - start))
            for index in np.flatnonzero(ends > starts).tolist()
            for start in [int(starts[index])]
        ]


def bounds_of_files(files: Sequence[DataFileMeta], schema: TableSchema) -> KeyBounds:
    """Return the exact key ranges of files."""
    types = key_types(schema)
    lower = (decode_row(file.min_key, types, f"_MIN_KEY of {file.file_name}") for file in files)
    upper = (decode_row(file.max_key, types, f"_MAX_KEY of {file.file_name}") for file in files)
    return KeyBounds(_columns(lower, types), _columns(upper, types))


def bounds_of_row_groups(groups: Sequence[KeyRange], schema: TableSchema) -> KeyBounds:
    """Return ranges that contain the keys of row groups."""
    types = key_types(schema)
    lower, upper = (group.minima for group in groups), (group.maxima for group in groups)
    return KeyBounds(_columns(lower, types), _columns(upper, types))


def _columns(
    bounds: Iterable[tuple[PlainValue, ...]], types: Sequence[DataType]
) -> tuple[pa.Array, ...]:
    rows = list(bounds)
    return tuple(
        plain_column([row[index] for row in rows], kind) for index, kind in enumerate(types)
    )
