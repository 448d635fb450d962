"""Which of some rows were written since a snapshot: what was made from that snapshot is no news for them.

In: rows with the columns of the primary key. Out: the others. Raises what reading manifests and data files raises.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from widetable.commit.touched_keys import touched_among, touched_files
from widetable.operations.asked_keys import asked_keys
from widetable.operations.lookup_keys import key_rows
from widetable.operations.open_table import OpenTable


def untouched_rows(
    table: OpenTable, rows: pa.Table, read_id: int, but_user: str, until_id: int | None = None
) -> pa.Table:
    """The rows whose keys nobody wrote after `read_id`, up to another snapshot, by default the newest. but_user: whose
    commits do not count.
    """
    committer, state = table._committer, table._state()
    until_id = until_id or committer.snapshots.latest_id() or read_id
    files = touched_files(committer.snapshots, committer.live_files, read_id, until_id, but_user)
    if not files or not rows.num_rows:
        return rows
    schema = state.schema
    asked = asked_keys(key_rows(rows.select(list(schema.primary_keys)), schema), schema)
    is_touched = np.zeros(asked.keys.num_rows, np.bool_)
    for bucket, first, end in zip(asked.buckets, asked.starts[:-1], asked.starts[1:], strict=True):
        keys = asked.keys.slice(int(first), int(end - first))
        is_touched[first + touched_among(state, bucket, keys, files.get(bucket, ()))] = True
    return rows.filter(pa.array(~is_touched[asked.places]))
