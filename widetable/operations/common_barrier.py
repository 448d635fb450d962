"""The newest barrier that several tables have in common: complete and exact in each.

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
