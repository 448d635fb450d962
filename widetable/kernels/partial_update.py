"""Choose the winning rows of keys that have several rows: the loops of the partial-update engine.

All positions count rows of such keys in merge order (oldest first): key c has the rows starts[c] to starts[c + 1].
`floor[c]` is the position of the row that last removed key c (rows before it are ignored), or -1. Results are
positions too, -1 where no row counts. Nothing is raised; callers guarantee the lengths.

    position    0     1     2     3     4        a group with the sequence s and the column a; arrival is position
    row         +I    +I    -D    +I    +I
    s, a        5,x   3,y   6,·   null  4,z      1: 3 < 5, refused       3: no sequence, skipped
    floor                   2                    2: removes the key, its 6 is stored; 4: 4 < 6, refused
    result      winner 2 (s = 6), value -1 (a is null)

A row is accepted when its sequence is >= the stored one, so the later of equal ones wins; columns outside of groups
take the last row that holds a value (`last_marked`). A removal is stored, not dropped, so that it refuses late rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from widetable.kernels.aggregate import ADD, LATE, RETRACT
from widetable.kernels.array_types import Lanes, Mask, Positions
from widetable.kernels.jit import kernel


def last_marked(starts: Positions, floor: Positions, marked: Mask) -> Positions:
    """Return the last marked row of each key behind its floor.

    marked bool[m], by position. The row at the floor itself does not count. The search starts at the end.
    """
    positions = np.empty(len(starts) - 1, np.int64)
    _last_marked(starts, floor, marked, positions)
    return positions


@kernel
def _last_marked(starts: Positions, floor: Positions, marked: Mask, positions: Positions) -> None:
    for key in range(len(positions)):
        positions[key] = -1
        for position in range(starts[key + 1] - 1, max(starts[key], floor[key] + 1) - 1, -1):
            if marked[position]:
                positions[key] = position
                break


@kernel
def _accepts(lanes: Lanes, first: int, last: int, stored: int, incoming: int) -> bool:
    """Whether lanes first to last (exclusive) of the incoming row are >= those of the stored row, if there is one."""
    if stored >= 0:
        for lane in range(first, last):
            if lanes[incoming, lane] != lanes[stored, lane]:
                return bool(lanes[incoming, lane] > lanes[stored, lane])
    return True


def sequence_winners(
    starts: Positions, floor: Positions, counts: Mask, adds: Mask, has_sequence: Mask, lanes: Lanes
) -> tuple[Positions, Positions]:
    """Return (winner, value) of one sequence group per key.

    winner: the row whose sequence is stored in the end; value: the row whose values are, -1 after an accepted
    retraction. Rows that do not count or have no sequence are skipped; a row is accepted if its lanes are >= the
    stored ones. The removing row at the floor is stored without comparison, with no values.

    counts bool[m]: rows that the group considers; adds: rows that have values (+I, +U), the
    others retract; has_sequence: not all parts of the sequence are null; lanes uint64[m, L]: the
    sequence, ascending.

    The two differ where the last accepted row is a retraction, or the removing one: its sequence
    stays, so that older adds are still refused, but it has no values.
    """
    winner, value = (np.empty(len(starts) - 1, np.int64) for _ in range(2))
    _sequence_winners(starts, floor, counts, adds, has_sequence, lanes, winner, value)
    return winner, value


@kernel
def _sequence_winners(
    starts: Positions,
    floor: Positions,
    counts: Mask,
    adds: Mask,
    has_sequence: Mask,
    lanes: Lanes,
    winner: Positions,
    value: Positions,
) -> None:
    width = lanes.shape[1]
    for key in range(len(winner)):
        stored, valued = np.int64(-1), np.int64(-1)
        first = starts[key]
        if floor[key] >= first:
            if has_sequence[floor[key]]:
                stored = floor[key]
            first = floor[key] + 1
        for position in range(int(first), int(starts[key + 1])):
            if not (counts[position] and has_sequence[position]):
                continue
            if _accepts(lanes, 0, width, int(stored), position):
                stored = np.int64(position)
                valued = np.int64(position) if adds[position] else np.int64(-1)
        winner[key], value[key] = stored, valued


def sequence_steps(
    starts: Positions,
    floor: Positions,
    counts: Mask,
    adds: Mask,
    has_sequence: Mask,
    lanes: Lanes,
    *,
    composes: bool,
) -> npt.NDArray[np.int8]:
    """Return the step of each row for the columns of one sequence group that functions fill (kernels.aggregate): an add
    that is refused is late; a retraction counts behind the first add. composes: where there is no add, retractions are
    added up to one.

    The module's example with a -U in place of the -D, and so without a removal (floor -1):

        row, s      +I 5   +I 3   -U 6     +I null   +I 4
        step        ADD    LATE   RETRACT  SKIP      LATE

    A retraction before the first add is SKIP: there is no value to retract. Its
    sequence is stored all the same, so it makes older adds late.
    """
    steps = np.zeros(len(counts), np.int8)
    # Passed as arguments: a cached kernel would keep old values of other files' constants.
    codes = ADD, LATE, RETRACT
    _sequence_steps(starts, floor, counts, adds, has_sequence, lanes, composes, *codes, steps)
    return steps


@kernel
def _sequence_steps(
    starts: Positions,
    floor: Positions,
    counts: Mask,
    adds: Mask,
    has_sequence: Mask,
    lanes: Lanes,
    composes: bool,
    add: int,
    late: int,
    retract: int,
    steps: npt.NDArray[np.int8],
) -> None:
    width = lanes.shape[1]
    for key in range(len(starts) - 1):
        stored = np.int64(-1)
        first = starts[key]
        if floor[key] >= first:
            if has_sequence[floor[key]]:
                stored = floor[key]
            first = floor[key] + 1
        has_add = False
        for position in range(int(first), int(starts[key + 1])):
            has_add = has_add or (counts[position] and adds[position])
            if not (counts[position] and has_sequence[position]):
                continue
            is_accepted = _accepts(lanes, 0, width, int(stored), position)
            if is_accepted:
                stored = np.int64(position)
            if adds[position]:
                steps[position] = add if is_accepted else late
            elif has_add:
                steps[position] = retract
        # A key of retractions alone is kept as one retraction until it meets the base: their values
        # are added up, and the sum is written as the one retraction.
        if composes and not has_add:
            for position in range(int(first), int(starts[key + 1])):
                if counts[position] and has_sequence[position]:
                    steps[position] = add


def last_removal(
    starts: Positions,
    deletes: Mask,
    has_sequence: npt.NDArray[np.bool_],
    lanes: Lanes,
    lane_starts: Positions,
) -> Positions:
    """Return the last row of each key that removed it: a delete that one of the removing sequence groups accepted.

    Group i has the lanes lane_starts[i] to lane_starts[i + 1] and the column i of `has_sequence`. After a removal every
    group stores the delete's sequence, even if it has none.

    Two groups, both removing, where the delete is accepted by the second only:

        row       +I      -D      +I
        s1, s2    5, 5    4, 6    4, null      result 1

    The delete removes the row, and from then on group 1 stores 4, less than before. A removal
    thus depends on all removing groups at once, which is why floors are computed first, for all of
    them, and winners then group by group.
    """
    removals = np.empty(len(starts) - 1, np.int64)
    stored = np.empty(len(lane_starts) - 1, np.int64)
    _last_removal(starts, deletes, has_sequence, lanes, lane_starts, stored, removals)
    return removals


@kernel
def _last_removal(
    starts: Positions,
    deletes: Mask,
    has_sequence: npt.NDArray[np.bool_],
    lanes: Lanes,
    lane_starts: Positions,
    stored: Positions,
    removals: Positions,
) -> None:
    groups = len(stored)
    for key in range(len(removals)):
        removals[key] = -1
        for group in range(groups):
            stored[group] = -1
        for position in range(starts[key], starts[key + 1]):
            removed = False
            for group in range(groups):
                if has_sequence[position, group] and _accepts(
                    lanes,
                    int(lane_starts[group]),
                    int(lane_starts[group + 1]),
                    int(stored[group]),
                    position,
                ):
                    stored[group] = position
                    removed = removed or deletes[position]
            if removed:
                removals[key] = position
                for group in range(groups):
                    stored[group] = position if has_sequence[position, group] else -1
