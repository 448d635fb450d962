"""Which sorted runs of a bucket are compacted next, and to which level. Pure: sizes and levels in, a RunPick out.

Source: Paimon `UniversalCompaction`, `CompactStrategy.pickFullCompaction`, `MergeTreeCompactManager`; format.md
section 9. Runs are newest first; a pick is always the newest n of them, so what is older lies below its output level.

    full         every run to the bottom level; nothing when only the bottom level has files
    1 amplified  with `trigger` runs or more: all, when the newer ones together are larger than
                 `max-size-amplification-percent` of the oldest
    2 ratio      with `trigger` runs or more: grow from the newest while the next run is at most `size-ratio` percent
                 larger than those taken; once something is taken, a run at level 0 or 1 is taken in any case
    3 count      with more than `trigger` runs: the same growth, but starting with runs - trigger + 1 of them
    forced       all of level 0, for a changelog that must not wait
    room         the same, to a level that older runs make free: each moves down as it is, as far as it can
    output       bottom level when all runs are taken, else one above the next run. That is never level 0: Paimon
                 extends a pick that would go there, which rule 2 has done already

With the trigger 3, runs as level and bytes, newest first:

    L0 100  L0 100  L3 50               all to the bottom (1)       200 > 200 % of 50
    L0 100  L0 100  L3 1000             L0 L0 to L2 (2)             100 takes 100; 200 does not take 1000
    L0 10   L0 100  L3 1000             nothing                     10 does not take 100; no more runs than 3
    L0 10   L0 100  L0 100  L3 1000     L0 L0 L0 to L2 (3)          begins with two: 110 takes 100, 210 not 1000
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
    """The newest runs of a bucket, and the level to which they go. below: the older ones, newest first. moves: which of
    these go down as they are, and to which levels. Then every older run lies below `level`.
    """

    runs: tuple[SortedRun, ...]
    below: tuple[SortedRun, ...]
    level: int
    moves: tuple[tuple[SortedRun, int], ...] = ()

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for run in self.runs for file in run.files)


def pick_due(levels: Levels, options: TableOptions, trigger: int | None = None) -> RunPick | None:
    """What rules 1 to 3 pick, None when that is nothing. trigger: in place of the option's."""
    if trigger is None:
        trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    runs = levels.sorted_runs()
    count = _pick_count(runs, options, trigger)
    return None if count == 0 else _newest(levels, runs, count)


def pick_all(levels: Levels) -> RunPick | None:
    """Every run: asked for, or needed by rows that may not be merged without their base (docs/decisions/0002)."""
    runs = levels.sorted_runs()
    if not runs or (len(runs) == 1 and runs[0].level == levels.max_level):
        return None
    return _newest(levels, runs, len(runs))


def pick_level0(levels: Levels, deepest_level: int | None = None) -> RunPick | None:
    """All of level 0, and level 1 where there is no level between; None without a level-0 file. deepest_level: with
    older runs, the output lies no deeper.
    """
    runs = levels.sorted_runs()
    if not runs or runs[0].level > 0:
        return None
    pick = _newest(levels, runs, sum(run.level <= 1 for run in runs))
    if pick is None or deepest_level is None or not pick.below:
        return pick
    return replace(pick, level=min(pick.level, deepest_level))


def pick_with_room(levels: Levels, above_level: int) -> RunPick | None:
    """All of level 0, to the level above the older runs once these have moved down; None when no move is needed for a
    level below `above_level`, or none makes room.

    Older runs are stacked from the bottom up, in their order. Bottom 9: L0 | L1 L2 L9 becomes
    L2 to L8, L1 to L7, and level 0 goes to L6. Only metadata change, and every run keeps its
    place among the others.
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
    """The pick and as many of the next older runs as it takes until all its sequence numbers lie above those that
    stay: for rows that mix records (docs/decisions/0007). A commit that was overtaken by a compaction is what makes
    them overlap.
    """
    runs = levels.sorted_runs()
    count = len(pick.runs)
    lowest = min(run.lowest_number for run in pick.runs)
    while count < len(runs) and lowest <= max(run.highest_number for run in runs[count:]):
        lowest = min(lowest, runs[count].lowest_number)
        count += 1
    return _newest(levels, runs, count)


def _pick_count(runs: Sequence[SortedRun], options: TableOptions, trigger: int) -> int:
    """How many of the newest runs to take; 0 for none."""
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
    """How many to take, at least `count`: the bytes so far are compared with those of the next run."""
    percent = 100 + options.get(opt.SIZE_RATIO)
    taken_bytes = sum(run.size_bytes for run in runs[:count])
    for run in runs[count:]:
        too_large = taken_bytes * percent < run.size_bytes * 100
        if too_large and (count == 1 or run.level > 1):
            break
        taken_bytes += run.size_bytes
        count += 1
    return count


def _newest(levels: Levels, runs: Sequence[SortedRun], count: int) -> RunPick | None:
    """The pick of so many; None where that is one file which lies at its level already."""
    # Runs at level 0 and 1 are always taken, so the next run lies at level 2 or deeper.
    level = levels.max_level if count == len(runs) else runs[count].level - 1
    pick = RunPick(tuple(runs[:count]), tuple(runs[count:]), level)
    if len(pick.files) == 1 and pick.files[0].level == level:
        return None
    return pick
