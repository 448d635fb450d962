"""At which barriers compactions are cut. Pure.

A compaction takes files of level 0 whose label is the cut or an earlier barrier, so that what lies above level 0 is the
table as of a barrier. The cut is complete, and not below what has moved up already: nothing of it can come any more. Of
several the roundest is taken, the one with the most trailing zero bits in units of the interval, and then the next:
tables that are behind by different amounts, each with a compactor of its own, still meet at the same barriers, without
talking (docs/consistency.md, R12 and R13).

    waiting 10, complete up to 50    cuts 40, 50            waiting 10, complete up to 70    cuts 40, 60, 70
"""

from __future__ import annotations

from widetable.commit.barrier_state import BarrierState


def cuts(state: BarrierState) -> list[int]:
    """One after the other, the last one where the table is complete; empty when nothing can be taken: nothing of a
    complete barrier waits, or another client has moved later records up, until these are complete.
    """
    found: list[int] = []
    if state.waiting is None:
        return found
    least = max(state.moved, state.waiting, state.interval)
    while least <= state.frontier:
        found.append(roundest(least, state.frontier, state.interval))
        least = found[-1] + state.interval
    return found


def roundest(least: int, most: int, interval: int) -> int:
    """The barrier from least to most, both barriers, with the most trailing zero bits; there is only one."""
    below, last = least // interval - 1, most // interval
    differing_bits = (below ^ last).bit_length()
    return (last >> (differing_bits - 1) << (differing_bits - 1)) * interval
