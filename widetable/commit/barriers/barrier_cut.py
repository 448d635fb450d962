"""Choose the barriers at which compactions are cut. Pure.

A compaction takes files of level 0 whose label is the cut or an earlier barrier, so that the levels above 0 hold the
table as of a barrier. The cut is a complete barrier, so no more of its records can come, and it is not below the labels
that have moved up already. If there are several, the roundest one is taken: the one with the most trailing zero bits in
units of the interval. The next cut follows in the same way. So tables that are behind by different amounts, each with
its own compactor, still meet at the same barriers without communication (docs/consistency.md, R12 and R13).

    waiting 10, complete up to 50    cuts 40, 50            waiting 10, complete up to 70    cuts 40, 60, 70

roundest(90, 130) in units of 10: 9 = 1001, 13 = 1101, between them 12 = 1100 ends in most zeros,
so it is 120.

A file that stays at level 0 may be older than a file that is taken, which then sorts before it (docs/decisions/0007 and
0008). That changes no row if the two files have no column in common. Otherwise the rows of a table would change with
the timing of compactions. So a file also stays if its rows depend on its order relative to an older file that stays
(`order_dependence`).

    cut 10    file  label  columns  numbers        a stays: its label is 20
              a       20   {1}      100 to 199     b stays: it shares column 1 with a, and is later
              b       10   {1}      200 to 299     c moves up: nothing that stays has its column
              c       10   {2}      300 to 399     d stays: it may have values in all columns
              d       10   all      400 to 499

If records replace each other as a whole, every file later than `a` stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from widetable.commit.barriers.barrier_state import BarrierState
from widetable.merge.order_dependence import Values, depends_on_order


class Level0File(NamedTuple):
    """A level-0 file of one bucket. first, last: sequence numbers.

    label: the barrier of its commit, or a later barrier if that commit has expired (`level0_labels`).
    """

    name: str
    label: int
    values: Values
    first: int
    last: int


def cuts(state: BarrierState) -> list[int]:
    """Return the barriers to cut at, one for each compaction in turn; the last one is the frontier.

    The list is empty if no record of a complete barrier waits, or if another client has moved up later records whose
    barrier is not complete yet.
    """
    barriers: list[int] = []
    # UNKNOWN is 0 and not None: files of the lowest possible barrier may wait.
    if state.waiting is None:
        return barriers
    least = max(state.moved, state.waiting, state.interval, state.first)
    while least <= state.frontier:
        barriers.append(roundest(least, state.frontier, state.interval))
        least = barriers[-1] + state.interval
    return barriers


def roundest(least: int, most: int, interval: int) -> int:
    """Return the one barrier between least and most (barriers too, both inclusive) with the most trailing zero bits."""
    # All numbers between `below` and `last` agree above the highest bit in which these two differ.
    # The number that has this bit and zeros after it is greater than `below` and at most `last`.
    below, last = least // interval - 1, most // interval
    differing_bits = (below ^ last).bit_length()
    return (last >> (differing_bits - 1) << (differing_bits - 1)) * interval


def staying(
    files: Sequence[Level0File], barrier: int, *, ordered: frozenset[int] | None
) -> set[str]:
    """Return the names of the level-0 files of one bucket that a compaction cut at `barrier` leaves.

    ordered: the columns whose values depend on the order of records (`order_dependence.ordered_ids`).
    """
    names: set[str] = set()
    oldest: dict[Values, int] = {}  # first sequence number of the files that stay

    def stay(file: Level0File) -> None:
        names.add(file.name)
        oldest[file.values] = min(file.first, oldest.get(file.values, file.first))

    for file in files:
        if file.label > barrier:
            stay(file)
    # If no file has a later label, no file stays. The order by last number decides most files in
    # one pass. If the numbers of several writers overlap, another pass checks the remaining files.
    left = sorted((file for file in files if file.name not in names), key=lambda file: file.last)
    left_before = len(left) + 1
    while names and len(left) < left_before:
        left_before = len(left)
        for file in left:
            if any(
                first < file.last and depends_on_order(values, file.values, ordered)
                for values, first in oldest.items()
            ):
                stay(file)
        left = [file for file in left if file.name not in names]
    return names
