"""The watermark of the slowest writer: what a sample waits for.

    watermarks {"clicks": 10:30, "orders": 10:05}    writers          watermark
                                                     None             10:05
                                                     clicks           10:30
                                                     clicks, views    none: the views have not said anything yet

Without names it is the slowest of all who have ever committed a watermark. A writer that began later is not among them
until its first commit, and one that has ended stays: name the writers where that matters. Where other clients alone
have committed and their first snapshots have expired, not all are known, and nothing is due without names.

In: the watermarks of writers as of a snapshot. Out: epoch millis, or None. Pure; raises nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def slowest(reached: Mapping[str, int], writers: Collection[str] | None) -> int | None:
    """Return the watermark that all of the writers have reached."""
    if writers is None:
        return min(reached.values(), default=None)
    if not all(name in reached for name in writers):
        return None
    return min(reached[name] for name in writers)
