"""Numbers for the keys of several tables: each distinct key has one number, in key order.

    left   b a c        right   c d        numbers   1 0 2 | 2 3

In: tables that all have the key columns, with the same types; a null is a key value like any other. Out: numbers and
rows. Pure. Raises TypeError for columns that cannot be a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.gather import take
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.sort_order import group_starts, sort_order

Numbers: TypeAlias = npt.NDArray[np.int64]


def key_numbers(tables: Sequence[pa.Table], key: Sequence[str]) -> list[Numbers]:
    """Return the key numbers of each table's rows: equal keys have equal numbers, from 0 without gaps."""
    columns = [
        pa.chunked_array(
            [chunk for table in tables for chunk in table.column(name).chunks],
            tables[0].column(name).type,
        )
        for name in key
    ]
    lanes = key_lanes(columns)
    order = sort_order(lanes, np.zeros(len(lanes), np.int64))
    starts = group_starts(lanes, order)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    ends = np.cumsum([0, *(table.num_rows for table in tables)])
    return [numbers[start:end] for start, end in pairwise(ends.tolist())]


def distinct_rows(keys: pa.Table) -> pa.Table:
    """Return each distinct row once, in key order. All columns are the key."""
    (numbers,) = key_numbers([keys], keys.column_names)
    _, firsts = np.unique(numbers, return_index=True)
    return rows_at(keys, firsts)


def rows_without(rows: pa.Table, key: Sequence[str], others: pa.Table) -> pa.Table:
    """Return the rows whose key does not occur in `others`."""
    own, other = key_numbers([rows, others], key)
    return rows_at(rows, np.flatnonzero(~np.isin(own, other)))


def rows_at(table: pa.Table, places: Numbers) -> pa.Table:
    """Return the rows at these positions; -1 gives a row of nulls, which requires that all columns may be null."""
    columns = [take(column, places) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)
