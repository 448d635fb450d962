"""The leaf columns of a Parquet file: those that have values.

Not by pyarrow's ParquetSchema: it and the metadata that it is asked of hold each other, so that a footer, of 30 MiB in
a wide table, stays after its file is closed until Python happens to look for cycles. Pure. Raises nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow.parquet as pq


class StoredLeaf(NamedTuple):
    """path: names joined by dots, and a name may have dots itself. physical_type: such as INT64."""

    path: str
    physical_type: str


def stored_leaves(metadata: pq.FileMetaData) -> tuple[StoredLeaf, ...]:
    """In file order, as the first row group says; none of a file without rows, of which nobody reads any."""
    if not metadata.num_row_groups:
        return ()
    chunks = map(metadata.row_group(0).column, range(metadata.num_columns))
    return tuple(StoredLeaf(chunk.path_in_schema, chunk.physical_type) for chunk in chunks)
