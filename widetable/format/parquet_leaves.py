"""The leaf columns of a Parquet file, which have the values.

pyarrow's ParquetSchema is not used: it and its metadata refer to each other, so that a footer, of 30 MiB in
a wide table, stays in memory after its file is closed until Python collects cycles. Pure. Raises nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow.parquet as pq


class StoredLeaf(NamedTuple):
    """A leaf column. path: names joined by dots; a name may contain dots itself. physical_type: such as INT64."""

    path: str
    physical_type: str


def stored_leaves(metadata: pq.FileMetaData) -> tuple[StoredLeaf, ...]:
    """Return the leaves in file order, from the first row group; none for a file without rows, which has no values."""
    if not metadata.num_row_groups:
        return ()
    chunks = map(metadata.row_group(0).column, range(metadata.num_columns))
    return tuple(StoredLeaf(chunk.path_in_schema, chunk.physical_type) for chunk in chunks)
