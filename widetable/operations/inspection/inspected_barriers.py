"""An Arrow table of the writers for which a table under barriers waits; empty for a table without barriers.

It reads only the newest snapshot. Barriers are epoch milliseconds. The table is complete up to the least of its
writers' complete barriers, so it waits for the rows with is_slowest. Writers that have left are not listed.

Raises what reading snapshots raises.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.inspection.inspected_frame import frame_of_rows, frame_schema
from widetable.schema.barrier_options import BARRIER_INTERVAL

BARRIERS: Final = frame_schema(
    "writer string, kind string, complete_barrier int64, last_barrier int64, table_barrier int64, is_slowest bool, "
    "run string"
)


def barriers(table: OpenTable) -> pa.Table:
    """List writers by name.

    complete_barrier: up to it the table has all records of the writer. last_barrier: the latest one of its records, 0
    without. table_barrier: up to it the whole table is complete. is_slowest: whether table_barrier waits for this
    writer. run: the process that owns the name.
    """
    if table.schema.typed_options.get(BARRIER_INTERVAL) is None:
        return frame_of_rows(BARRIERS, [], table.path)
    state = barrier_views(table).newest()
    slowest = min((member.frontier for member in state.members.values()), default=0)
    rows = (
        (
            name,
            member.kind,
            member.frontier,
            member.last,
            state.frontier,
            member.frontier == slowest,
            member.run,
        )
        for name, member in sorted(state.members.items())
    )
    return frame_of_rows(BARRIERS, rows, table.path)
