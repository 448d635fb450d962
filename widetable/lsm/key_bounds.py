"""Key ranges of files and row groups, and which keys of a batch may lie in each of them.

Source: format.md section 4 (`min_key`, `max_key`) and Parquet's statistics. Values only, no I/O. In: smallest and
largest key of each range; a bound that nobody knows leaves out nothing. Out: slices of key batches. Raises DamagedError
for a `min_key` or `max_key` that does not decode.

    ranges   10..19   20..29   unknown          keys   5 12 19 25 40
    starts    1        3        0               keys 1 : 3 (12 and 19) may lie in the first, 3 : 4 in the second,
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
    """The keys that the range at `place` may have: those of the key batch from `start` on."""

    place: int
    start: int
    keys: pa.RecordBatch


@dataclass(frozen=True)
class KeyBounds:
    """lower, upper: one array per column of the trimmed key, one row per range; null where a bound is not known."""

    lower: tuple[pa.Array, ...]
    upper: tuple[pa.Array, ...]

    def shares(self, keys: pa.RecordBatch) -> list[Share]:
        """Of the ranges, in order, that may have some of the keys of a key batch; of one of leading columns too.

        Where columns are bounded each by itself (row groups), a key may be in the share and yet outside.
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
    """The exact ranges of files."""
    types = key_types(schema)
    lower = (decode_row(file.min_key, types, f"_MIN_KEY of {file.file_name}") for file in files)
    upper = (decode_row(file.max_key, types, f"_MAX_KEY of {file.file_name}") for file in files)
    return KeyBounds(_columns(lower, types), _columns(upper, types))


def bounds_of_row_groups(groups: Sequence[KeyRange], schema: TableSchema) -> KeyBounds:
    """Ranges that hold those of row groups."""
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
