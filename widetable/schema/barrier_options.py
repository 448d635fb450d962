"""Options of tables under barriers (docs/consistency.md).

With an interval of 60,000 ms barriers are the moments 0, 60,000, 120,000, .. of the epoch. They are no
times at which anything happens: a writer says of each commit which one its rows belong to.
The largest interval, 1 << 40 ms, is some 35 years. A table keeps its interval, since a barrier that is
complete must mean the same in each of its snapshots.

    widetable.barrier-interval    commit.barrier_table      says which tables are under barriers, and refuses the rest
    widetable.barriers-kept       operations.barrier_scan, meta.barrier_floor    what expiry leaves
    widetable.barrier-stage       operations.staging, operations.session         writers note, sessions read
"""

from __future__ import annotations

from typing import Final

from widetable.schema.option import Option, declared_in

BARRIER_INTERVAL: Final = Option[int | None].duration(
    "widetable.barrier-interval",
    None,
    "The table is under barriers, moments that are multiples of this: its writers say to which barrier their records "
    "belong and when they have all of it, and the table can be read as of a barrier. A table that has none may get it "
    "later (docs/consistency.md), and keeps it.",
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
    "Expiry keeps what is needed to read the newest complete barrier and those of so many intervals before it: a "
    "session over several tables reads the newest one that all have.",
)
BARRIER_STAGE: Final = Option[bool].flag(
    "widetable.barrier-stage",
    False,
    "A writer notes each commit that completes a barrier before it is published: a session at ReadCommitted shows it "
    "as soon as all of its tables have, or note, the barrier. One more request for each such commit.",
)
BARRIER_OPTIONS: Final = declared_in(globals())
