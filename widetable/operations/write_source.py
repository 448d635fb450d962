"""What a caller gives as data: its column names, known before any row is looked at, and its
batches.

Raises UnsupportedError for what gives no record batches (`write.write_batch.user_batches`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from widetable.write.write_batch import stream_of, user_batches


@dataclass(frozen=True)
class WriteSource:
    """columns: None when there is no batch to say. batches: to be read once."""

    columns: tuple[str, ...] | None
    batches: Any


def source_of(data: Any) -> WriteSource:
    """Anything that gives record batches; a plain iterable of batches is looked at up to its first
    one.
    """
    if hasattr(data, "__arrow_c_stream__") and not isinstance(
        data, pa.Table | pa.RecordBatchReader
    ):
        data = stream_of(data)
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return WriteSource(tuple(data.schema.names), data)
    batches = user_batches(data)
    first = next(batches, None)
    if first is None:
        return WriteSource(None, ())
    rest: Iterable[pa.RecordBatch] = chain([first], batches)
    return WriteSource(tuple(first.schema.names), rest)
