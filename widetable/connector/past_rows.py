"""All versions of the rows of a table, as far as its history and its snapshots go: for feature stores.

    key  _from  _snapshot  _place  _deleted  columns         as the history table has them (history_columns)

In: a table. Out: an Arrow table, the versions of a key in the order of snapshots and places; keys are those that the
table has now. Memory: the result. Raises NotFoundError where versions are missing between history and snapshots, and
what scans and lookups raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa

from widetable.derive.versions.held_past import held_past
from widetable.derive.versions.past_versions import past_versions
from widetable.table import Table


def row_versions(table: Table, columns: Sequence[str]) -> pa.Table:
    """Read the versions of all rows that a table has now.

    Parameters
    ----------
    table : Table
        The table, with or without a history.
    columns : list of str
        The columns to read besides the key.

    Returns
    -------
    pyarrow.Table
        The key, the columns, and `_from`, `_snapshot`, `_place` and `_deleted`, a row for each version.

    Raises
    ------
    NotFoundError
        Versions between the history and the snapshots are missing, or there is no such column.
    """
    with ExitStack() as stack:
        past = held_past(table, stack)
        keys = table.scan(columns=list(table.schema.primary_keys)).to_arrow().combine_chunks()
        batches = keys.to_batches() or [pa.RecordBatch.from_pylist([], keys.schema)]
        return past_versions(past, batches[0], columns).rows
