"""Key batches for lookups: any keys, in the order and form that the engine wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.models.plain_rows import python_values
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.schema.table_schema import TableSchema


def key_batch(schema: TableSchema, keys: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """The trimmed key of these rows: sorted, each key once."""
    arrow = schema.arrow_schema(schema.trimmed_primary_key)
    columns = [pa.array([key[field.name] for key in keys], field.type) for field in arrow]
    return sorted_distinct(pa.RecordBatch.from_arrays(columns, schema=arrow))


def sorted_distinct(keys: pa.RecordBatch) -> pa.RecordBatch:
    if not keys.num_rows:
        return keys
    lanes = key_lanes(keys.columns)
    order = sort_order(lanes, np.zeros(len(lanes), np.int64))
    return keys.take(pa.array(order[group_starts(lanes, order)[:-1]]))


def in_pieces(keys: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, keys.num_rows, rows):
        yield keys.slice(start, rows)


def key_texts(batch: pa.RecordBatch, names: Sequence[str]) -> list[str]:
    """Keys as texts, which set -0.0 apart from 0.0."""
    rows = zip(*(python_values(batch.column(name)) for name in names), strict=True)
    return [repr(row) for row in rows]
