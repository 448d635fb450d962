"""Partitions of the rows of a batch.

In: a row batch with the partition columns. Raises what BinaryRows raise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.binary_row import EMPTY_ROW, encode_rows, with_arity
from widetable.kernels.key_lanes import key_lanes
from widetable.schema import TableSchema


def partition_numbers(row_batch: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64]:
    """Equal numbers for rows of equal partition, int64[n] from 0."""
    lanes = key_lanes([row_batch.column(name) for name in schema.partition_keys])
    # One lane is the rule, and much faster to sort than rows of several.
    values, axis = (lanes[:, 0], None) if lanes.shape[1] == 1 else (lanes, 0)
    _, numbers = np.unique(values, axis=axis, return_inverse=True)
    return np.asarray(numbers.reshape(-1), np.int64)


def partition_of(row_batch: pa.RecordBatch, row: int, schema: TableSchema) -> bytes:
    """BinaryRow of the partition of one row."""
    if not schema.partition_keys:
        return EMPTY_ROW
    columns = [row_batch.slice(row, 1).column(name) for name in schema.partition_keys]
    types = [schema.field(name).type for name in schema.partition_keys]
    return with_arity(encode_rows(columns, types).row(0), len(types))
