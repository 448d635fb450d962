"""At which barriers compactions are cut. Pure.

A compaction takes files of level 0 whose label is the cut or an earlier barrier, so that what lies above level 0 is the
table as of a barrier. The cut is complete, and not below what has moved up already: nothing of it can come any more. Of
several the roundest is taken, the one with the most trailing zero bits in units of the interval, and then the next:
tables that are behind by different amounts, each with a compactor of its own, still meet at the same barriers, without
talking (docs/consistency.md, R12 and R13).

    waiting 10, complete up to 50    cuts 40, 50            waiting 10, complete up to 70    cuts 40, 60, 70

roundest(90, 130) in units of 10: 9 = 1001, 13 = 1101, between them 12 = 1100 ends in most zeros,
so it is 120.

What stays at level 0 may be older than what is taken, which then sorts before it (docs/decisions/0007 and 0008). That
changes no row where the two have no column in common. So a file stays, too, whose rows depend on the order to an older
one that stays: rows of a table must not change with the timing of compactions (`order_dependence`).

    cut 10    file  label  columns  numbers        a stays: its label is 20
              a       20   {1}      100 to 199     b stays: it shares column 1 with a, and is later
              b       10   {1}      200 to 299     c moves up: nothing that stays has its column
              c       10   {2}      300 to 399     d stays: it may have values in all columns
              d       10   all      400 to 499

Where records replace each other as a whole all that is later than `a` stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from widetable.commit.barriers.barrier_state import BarrierState
from widetable.merge.order_dependence import Values, depends_on_order


class Level0File(NamedTuple):
    """Of one bucket. first, last: sequence numbers.

    label: the barrier of its commit, or one above it where that commit has expired (`level0_labels`).
    """

    name: str
    label: int
    values: Values
    first: int
    last: int


def cuts(state: BarrierState) -> list[int]:
    """One after the other, the last one where the table is complete; empty when nothing can be taken: nothing of a
    complete barrier waits, or another client has moved later records up, until these are complete.
    """
    found: list[int] = []
    # UNKNOWN is 0 and not None: something may wait, of the lowest barrier that there can be.
    if state.waiting is None:
        return found
    least = max(state.moved, state.waiting, state.interval, state.first)
    while least <= state.frontier:
        found.append(roundest(least, state.frontier, state.interval))
        least = found[-1] + state.interval
    return found


def roundest(least: int, most: int, interval: int) -> int:
    """The barrier from least to most, both barriers, with the most trailing zero bits; there is only one."""
    # Above the highest bit in which `last` and `below` differ, all numbers between are alike; the
    # one that has this bit and zeros behind it is greater than `below`, and not greater than
    # `last`.
    below, last = least // interval - 1, most // interval
    differing_bits = (below ^ last).bit_length()
    return (last >> (differing_bits - 1) << (differing_bits - 1)) * interval


def staying(
    files: Sequence[Level0File], barrier: int, *, ordered: frozenset[int] | None
) -> set[str]:
    """Names of the files at level 0 of one bucket that a compaction with that cut leaves.

    ordered: the columns in which order counts (`order_dependence.ordered_ids`).
    """
    names: set[str] = set()
    oldest: dict[Values, int] = {}  # first sequence number of what stays

    def stay(file: Level0File) -> None:
        names.add(file.name)
        oldest[file.values] = min(file.first, oldest.get(file.values, file.first))

    for file in files:
        if file.label > barrier:
            stay(file)
    # Without a later label nothing stays. By last numbers, so that what stays for the sake of
    # another file is mostly known when later ones are looked at; where the numbers of several
    # writers overlap it is not, and all that are left are looked at again.
    left = sorted((file for file in files if file.name not in names), key=lambda file: file.last)
    looked_at = len(left) + 1
    while names and len(left) < looked_at:
        looked_at = len(left)
        for file in left:
            if any(
                first < file.last and depends_on_order(values, file.values, ordered)
                for values, first in oldest.items()
            ):
                stay(file)
        left = [file for file in left if file.name not in names]
    return names
