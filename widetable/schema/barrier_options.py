"""Options of tables under barriers (docs/consistency.md).

With an interval of 60,000 ms the barriers are the moments 0, 60,000, 120,000, .. of the epoch. Nothing
happens at these times: a writer labels each commit with the barrier to which its rows belong.
The largest interval, 1 << 40 ms, is some 35 years. A table keeps its interval, because a complete
barrier must have the same meaning in each of its snapshots.

    widetable.barrier-interval    commit.barrier_table      decides which tables are under barriers
    widetable.barriers-kept       operations.barrier_scan, topology.barrier_floor    what expiry keeps
    widetable.barrier-stage       operations.staging, operations.session         writers write notes, sessions read them
"""

from __future__ import annotations

from typing import Final

from widetable.schema.option import Option, declared_in

BARRIER_INTERVAL: Final = Option[int | None].duration(
    "widetable.barrier-interval",
    None,
    "Put the table under barriers, which are moments that are multiples of this interval: its writers declare to which "
    "barrier their records belong, and when a barrier is complete, and the table can be read as of a barrier. A table "
    "without an interval may get one later (docs/consistency.md); it cannot be changed.",
    immutable=True,
    may_come_later=True,
    least=1,
    most=1 << 40,
)
BARRIERS_KEPT: Final = Option[int](
    "widetable.barriers-kept",
    "integer",
    3,
    "intervals",
    "Expiry keeps the snapshots that are needed to read the newest complete barrier and those of this number of "
    "intervals before it: a session over several tables reads the newest barrier that all of them have.",
)
BARRIER_STAGE: Final = Option[bool].flag(
    "widetable.barrier-stage",
    False,
    "A writer writes a note of each commit that completes a barrier before it publishes the commit. A session at "
    "ReadCommitted shows the barrier as soon as each of its tables has it, or a note of it. This costs one more "
    "request for each such commit.",
)
BARRIER_OPTIONS: Final = declared_in(globals())
