"""The newest barrier that several tables have in common: complete and exact in each.

    a complete up to 70, exact at 40 and 60    b complete up to 60, exact at all

    60 (the least of both) ─► a: 60 ─► b: 60                           60
    with b exact at 20, 40 only: 60 ─► a: 60 ─► b: 40 ─► a: 40 ─► b    40

Each round lowers the barrier or ends the search, so there are at most as many rounds as barriers, usually two.

Source: rules R11 and R17 of docs/consistency.md. Raises what reading snapshots raises.
"""

from __future__ import annotations

from collections.abc import Collection

from widetable.read.barrier_view import BarrierViews


def common_barrier(tables: Collection[BarrierViews]) -> int:
    """Return the newest common barrier; 0 without one, or if the intervals differ."""
    if len({views.interval for views in tables}) != 1:
        return 0
    barrier, before = min(views.newest().frontier for views in tables), -1
    while barrier != before:
        before = barrier
        for views in tables:
            barrier = views.exact.at_most(barrier)
    return barrier
