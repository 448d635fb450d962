"""An Arrow table of who a table under barriers waits for; empty for one without.

By the newest snapshot alone. Barriers are epoch milliseconds. The table is complete up to the
least of its writers' complete barriers, so the rows with is_slowest say who is waited for;
writers that have left are not among them.

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
    """Writers by name. complete_barrier: up to which all of its records are in; last_barrier: the latest that it has
    records of, 0 without; table_barrier: the one up to which the whole table is complete; is_slowest: whether that
    grows only when this writer goes on; run: the process that has the name.
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
