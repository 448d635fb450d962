"""The newest barrier that several tables have in common: complete and exact in each.

    a complete up to 70, exact at 40 and 60    b complete up to 60, exact at all

    60 (the least of both) ─► a: 60 ─► b: 60                           60
    with b exact at 20, 40 only: 60 ─► a: 60 ─► b: 40 ─► a: 40 ─► b    40

Each round goes down or ends, so there are as many as barriers at most, mostly two.

Source: rules R11 and R17 of docs/consistency.md. Raises what reading snapshots raises.
"""

from __future__ import annotations

from collections.abc import Collection

from widetable.read.barrier_view import BarrierViews


def common_barrier(tables: Collection[BarrierViews]) -> int:
    """0 without one, or where their intervals differ."""
    if len({views.interval for views in tables}) != 1:
        return 0
    found, before = min(views.newest().frontier for views in tables), -1
    while found != before:
        before = found
        for views in tables:
            found = views.exact.at_most(found)
    return found
