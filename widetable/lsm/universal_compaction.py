"""Picks the sorted runs of a bucket to compact next, and their level. Pure: sizes and levels in, a RunPick out.

Source: Paimon `UniversalCompaction`, `CompactStrategy.pickFullCompaction`, `MergeTreeCompactManager`; format.md
section 9. Runs are newest first; a pick is always the newest n runs, so older ones are at deeper levels than its
output.

    full         every run to the bottom level; nothing if only the bottom level has files
    1 amplified  with `trigger` runs or more: all, if the newer ones together are larger than
                 `max-size-amplification-percent` of the oldest
    2 ratio      with `trigger` runs or more: grow from the newest while the next run is at most `size-ratio` percent
                 larger than the picked ones together; after the first step a run at level 0 or 1 is always picked
    3 count      with more than `trigger` runs: the same growth, but starting with runs - trigger + 1 of them
    forced       all of level 0, for a changelog that must not wait
    room         all of level 0, to a level that older runs make free: each moves down unchanged, as far as it can
    output       the bottom level if all runs are picked, else one above the next run. That is never level 0: Paimon
                 extends a pick that would go there, which rule 2 has done already

With the trigger 3, runs as level and bytes, newest first:

    L0 100  L0 100  L3 50               all to the bottom (1)       200 > 200 % of 50
    L0 100  L0 100  L3 1000             L0 L0 to L2 (2)             100 picks 100; 200 does not pick 1000
    L0 10   L0 100  L3 1000             nothing                     10 does not pick 100; no more runs than 3
    L0 10   L0 100  L0 100  L3 1000     L0 L0 L0 to L2 (3)          begins with two: 110 picks 100, 210 not 1000
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.levels import Levels
from widetable.lsm.sorted_run import SortedRun
from widetable.schema import options as opt
from widetable.schema.options import TableOptions


@dataclass(frozen=True)
class RunPick:
    """The newest runs of a bucket, and the level of their output. below: the older runs, newest first. moves: those of
    them that move down unchanged, and to which levels. After the moves every older run is at a deeper level.
    """

    runs: tuple[SortedRun, ...]
    below: tuple[SortedRun, ...]
    level: int
    moves: tuple[tuple[SortedRun, int], ...] = ()

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for run in self.runs for file in run.files)


def pick_due(levels: Levels, options: TableOptions, trigger: int | None = None) -> RunPick | None:
    """Return the pick of rules 1 to 3, None for nothing. trigger: in place of the option's."""
    if trigger is None:
        trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    runs = levels.sorted_runs()
    count = _pick_count(runs, options, trigger)
    return None if count == 0 else _newest(levels, runs, count)


def pick_all(levels: Levels) -> RunPick | None:
    """Pick every run, on request or for rows that must not be merged without their base (docs/decisions/0002)."""
    runs = levels.sorted_runs()
    if not runs or (len(runs) == 1 and runs[0].level == levels.max_level):
        return None
    return _newest(levels, runs, len(runs))


def pick_level0(levels: Levels, deepest_level: int | None = None) -> RunPick | None:
    """Pick level 0, and level 1, as no level is between; None without a level-0 file. deepest_level: the deepest level
    of the output if there are older runs.
    """
    runs = levels.sorted_runs()
    if not runs or runs[0].level > 0:
        return None
    pick = _newest(levels, runs, sum(run.level <= 1 for run in runs))
    if pick is None or deepest_level is None or not pick.below:
        return pick
    return replace(pick, level=min(pick.level, deepest_level))


def pick_with_room(levels: Levels, above_level: int) -> RunPick | None:
    """Pick level 0, to the level above the older runs after these have moved down; None if a level deeper than
    `above_level` is free without moves, or if no move makes room.

    Older runs are stacked from the bottom up, in their order. Bottom 9: in L0 | L1 L2 L9, L2 moves to L8, L1 to L7, and
    level 0 is merged to L6. A move changes only metadata, and the runs keep their order.
    """
    runs = levels.sorted_runs()
    fresh = tuple(run for run in runs if run.level == 0)
    older = runs[len(fresh) :]
    if not fresh or not older or older[0].level - 1 > above_level:
        return None
    stacked = zip(reversed(older), range(levels.max_level, 0, -1), strict=False)
    moves = tuple((run, level) for run, level in stacked if run.level != level)
    free_level = levels.max_level - len(older)
    return RunPick(fresh, older, free_level, moves) if moves and free_level >= 1 else None


def extend(levels: Levels, pick: RunPick) -> RunPick | None:
    """Extend the pick by older runs until all its sequence numbers are above those of the remaining runs, for rows that
    mix records (docs/decisions/0007). The numbers overlap after a compaction has overtaken a commit.
    """
    runs = levels.sorted_runs()
    count = len(pick.runs)
    lowest = min(run.lowest_number for run in pick.runs)
    while count < len(runs) and lowest <= max(run.highest_number for run in runs[count:]):
        lowest = min(lowest, runs[count].lowest_number)
        count += 1
    return _newest(levels, runs, count)


def _pick_count(runs: Sequence[SortedRun], options: TableOptions, trigger: int) -> int:
    """Return how many of the newest runs to pick; 0 for none."""
    if len(runs) < max(trigger, 1):
        return 0
    newer_bytes = sum(run.size_bytes for run in runs[:-1])
    allowed_percent = options.get(opt.MAX_SIZE_AMPLIFICATION_PERCENT)
    if newer_bytes * 100 > allowed_percent * runs[-1].size_bytes:
        return len(runs)
    grown = _grow(runs, 1, options)
    if grown > 1:
        return grown
    if len(runs) > trigger:
        return _grow(runs, len(runs) - trigger + 1, options)
    return 0


def _grow(runs: Sequence[SortedRun], count: int, options: TableOptions) -> int:
    """Return how many runs to pick, at least `count`: the bytes so far are compared with those of the next run."""
    percent = 100 + options.get(opt.SIZE_RATIO)
    picked_bytes = sum(run.size_bytes for run in runs[:count])
    for run in runs[count:]:
        too_large = picked_bytes * percent < run.size_bytes * 100
        if too_large and (count == 1 or run.level > 1):
            break
        picked_bytes += run.size_bytes
        count += 1
    return count


def _newest(levels: Levels, runs: Sequence[SortedRun], count: int) -> RunPick | None:
    """Return the pick of the newest `count` runs; None if that is one file that is at its level already."""
    # Runs at level 0 and 1 are always picked, so the next run is at level 2 or deeper.
    level = levels.max_level if count == len(runs) else runs[count].level - 1
    pick = RunPick(tuple(runs[:count]), tuple(runs[count:]), level)
    if len(pick.files) == 1 and pick.files[0].level == level:
        return None
    return pick
