"""The rows that a task sends for one read of changes: in the form of the options, or only those that are new."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from widetable.connector import ROW_KIND_COLUMN, StreamRead
from widetable_spark.frames.source_options import SourceOptions


def changed_rows(read: StreamRead, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield all changes with their kinds where the options say so, else rows that are new or new values."""
    if options.read_changelog:
        return options.change_form.batches(read)
    return map(_new_values, read.to_batches())


def _new_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a stream of rows: +I and +U. A deleted key gives none."""
    is_new = pc.starts_with(batch.column(ROW_KIND_COLUMN), "+")
    return batch if pc.all(is_new).as_py() else batch.filter(is_new)
