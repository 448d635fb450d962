"""Which rows have equal keys, over several tables: each distinct key has a number, in key order.

    left   b a c        right   c d        numbers   1 0 2 | 2 3

In: tables that all have the key's columns, of the same types; nulls are keys too. Out: numbers and rows. Pure. Raises
TypeError for columns that cannot be a key.
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
    """For each table the numbers of its rows' keys: equal keys have equal ones, from 0 without gaps."""
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
    """Each row once, in key order. All columns are the key."""
    (numbers,) = key_numbers([keys], keys.column_names)
    _, firsts = np.unique(numbers, return_index=True)
    return rows_at(keys, firsts)


def rows_without(rows: pa.Table, key: Sequence[str], others: pa.Table) -> pa.Table:
    """The rows whose key none of the others has."""
    own, of_others = key_numbers([rows, others], key)
    return rows_at(rows, np.flatnonzero(~np.isin(own, of_others)))


def rows_at(table: pa.Table, places: Numbers) -> pa.Table:
    """The rows of these numbers; -1 is a row of nulls, where all columns may be null."""
    columns = [take(column, places) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)
