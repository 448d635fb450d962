"""The rows that lookups would have returned at given moments, from the snapshots that are still there.

Keys are divided by the snapshot that their moment has, and each snapshot looks up its own keys at once:

    key  at       snapshot                 snapshot 3: keys 1, 7      snapshot 5: key 1
    1    10:00    3
    1    10:09    5                        so each answer is that of a lookup by definition, whatever the merge
    7    10:01    3                        engine, the producer, or the moment of a compaction

The cost is that of looking up each key once, and of opening the files of each snapshot that is read; files that two
snapshots share stay open. Memory: the result. All rows have today's columns; a column that a snapshot lacks is null.

In: whole keys, and the snapshot of each, which a lease of the caller keeps. Out: one row per key, in their order.
Raises what lookups raise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import rows_at
from widetable.kernels.array_types import Positions
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_at import view_at


def known_rows(
    table: OpenTable, keys: pa.RecordBatch, snapshot_ids: Positions, columns: Sequence[str]
) -> pa.Table:
    """Return the row of each key as of its snapshot. snapshot_ids: int64[n]; 0 for none, which gives nulls."""
    order = np.argsort(snapshot_ids, kind="stable")
    ids, firsts = np.unique(snapshot_ids[order], return_index=True)
    ends = np.append(firsts, len(order))[1:]
    places = np.full(len(order), -1, np.int64)
    parts: list[pa.Table] = []
    count = 0
    view: LookupView | None = None
    try:
        for id, first, end in zip(ids.tolist(), firsts.tolist(), ends.tolist(), strict=True):
            if not id:
                continue
            newer = view_at(table, id, columns)
            if view is not None:
                newer.take_over(view)
            view = newer
            members = order[first:end]
            parts.append(view.rows_of(keys.take(pa.array(members))))
            places[members] = np.arange(count, count + len(members))
            count += len(members)
    finally:
        if view is not None:
            view.close()
    schema = pa.schema([field.with_nullable(True) for field in table.schema.arrow_schema(columns)])
    return rows_at(pa.concat_tables([schema.empty_table(), *parts]), places)
