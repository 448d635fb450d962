"""Finds the partitions of the rows of a batch.

In: a row batch with the partition columns. Raises what BinaryRows raise.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.binary_row import EMPTY_ROW, encode_rows, with_arity
from widetable.merge.value_codes import ranks
from widetable.schema.table_schema import TableSchema


def partition_numbers(row_batch: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64]:
    """Number the partitions of the rows, int64[n] from 0: equal numbers for equal partitions."""
    return ranks([row_batch.column(name) for name in schema.partition_keys])


def rows_by_partition(
    row_batch: pa.RecordBatch, schema: TableSchema
) -> Iterator[tuple[bytes, npt.NDArray[np.int64]]]:
    """Yield each partition of a batch, with the numbers of its rows."""
    if not schema.partition_keys:
        yield EMPTY_ROW, np.arange(row_batch.num_rows)
        return
    numbers = partition_numbers(row_batch, schema)
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        yield partition_of(row_batch, int(rows[0]), schema), rows


def partition_of(row_batch: pa.RecordBatch, row: int, schema: TableSchema) -> bytes:
    """Return the BinaryRow of the partition of one row."""
    if not schema.partition_keys:
        return EMPTY_ROW
    columns = [row_batch.slice(row, 1).column(name) for name in schema.partition_keys]
    types = [schema.field(name).type for name in schema.partition_keys]
    return with_arity(encode_rows(columns, types).row(0), len(types))
