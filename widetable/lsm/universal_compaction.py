"""Which sorted runs of a bucket are compacted next, and to which level. Pure: sizes and levels in, a Choice out.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from widetable import options as opt
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.levels import Levels
from widetable.lsm.sorted_run import SortedRun
from widetable.options import TableOptions


@dataclass(frozen=True)
class Choice:
    """Merge `files` into `output_level`. drop_deletes: nothing older is left in the bucket.

    Whether a delete then really goes is for the merge engine to say (docs/decisions/0002). The others are filled in by
    changelog_compaction. known_level: rows from this level on are what readers of changes have seen, and the changes
    to them are told; None: nothing is told. below: the older runs that are not taken, newest first, in which such
    rows are looked up; newest_wins: the newest of them that has a key has its row, else the rows of all are merged.
    sequence_number: of all rows that are written; None: as they were merged. repairs: the rows at level >= 1 were not
    full rows. moves: other files, and the levels to which they go as they are.
    """

    files: tuple[DataFileMeta, ...]
    output_level: int
    drop_deletes: bool
    known_level: int | None = None
    below: tuple[SortedRun, ...] = ()
    newest_wins: bool = True
    sequence_number: int | None = None
    repairs: bool = False
    moves: tuple[tuple[DataFileMeta, int], ...] = ()

    def takes_all(self, levels: Levels) -> bool:
        """Whether no file of the bucket is left out."""
        return len(self.files) == len(levels.files)


def pick(
    levels: Levels, options: TableOptions, *, full: bool, trigger: int | None = None
) -> Choice | None:
    """The next compaction of a bucket, or None when there is nothing to do. trigger: in place of the option's."""
    runs = levels.sorted_runs()
    if full:
        return _full(levels, runs)
    if trigger is None:
        trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    count = _pick_count(runs, options, trigger)
    return None if count == 0 else _choice(levels, runs, count)


def force_level0(levels: Levels, deepest_level: int | None = None) -> Choice | None:
    """All of level 0, and level 1 where there is no level between; None without a level-0 file. deepest_level: with
    older runs, the output lies no deeper.
    """
    runs = levels.sorted_runs()
    fresh = sum(run.level == 0 for run in runs)
    if not fresh:
        return None
    count = fresh + sum(run.level == 1 for run in runs)
    choice = _choice(levels, runs, count)
    if choice is None or deepest_level is None or count == len(runs):
        return choice
    return replace(choice, output_level=min(choice.output_level, deepest_level))


def make_room(levels: Levels, above_level: int) -> Choice | None:
    """All of level 0, to the level above the older runs once these have moved down as they are; None when no move is
    needed for a level below `above_level`, or none makes room.
    """
    runs = levels.sorted_runs()
    fresh = tuple(run for run in runs if run.level == 0)
    older = runs[len(fresh) :]
    if not fresh or not older or older[0].level - 1 > above_level:
        return None
    moves: list[tuple[DataFileMeta, int]] = []
    free_level = levels.max_level
    for run in reversed(older):
        if run.level != free_level:
            moves += [(file, free_level) for file in run.files]
        free_level -= 1
    if not moves or free_level < 1:
        return None
    files = tuple(file for run in fresh for file in run.files)
    return Choice(files, free_level, drop_deletes=False, moves=tuple(moves))


def widen(levels: Levels) -> Choice | None:
    """The pick that takes in every run: for rows that may not be merged without their base (docs/decisions/0002)."""
    return _full(levels, levels.sorted_runs())


def extend(levels: Levels, choice: Choice) -> Choice | None:
    """The pick and as many of the next older runs as it takes until all its sequence numbers lie above those that
    stay: for rows that mix records (docs/decisions/0007). A commit that was overtaken by a compaction is what makes
    them overlap.
    """
    runs = levels.sorted_runs()
    taken = set(choice.files)
    count = sum(taken.issuperset(run.files) for run in runs)
    lowest = min(file.min_sequence_number for file in choice.files)
    while count < len(runs) and lowest <= _highest_number(runs[count:]):
        lowest = min(lowest, *(file.min_sequence_number for file in runs[count].files))
        count += 1
    return _choice(levels, runs, count)


def _highest_number(runs: Sequence[SortedRun]) -> int:
    return max(file.max_sequence_number for run in runs for file in run.files)


def _full(levels: Levels, runs: Sequence[SortedRun]) -> Choice | None:
    if not runs or (len(runs) == 1 and runs[0].level == levels.max_level):
        return None
    return _choice(levels, runs, len(runs))


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
    percent = 100 + options.get(opt.SIZE_RATIO)
    taken_bytes = sum(run.size_bytes for run in runs[:count])
    for run in runs[count:]:
        too_large = taken_bytes * percent < run.size_bytes * 100
        if too_large and (count == 1 or run.level > 1):
            break
        taken_bytes += run.size_bytes
        count += 1
    return count


def _choice(levels: Levels, runs: Sequence[SortedRun], count: int) -> Choice | None:
    # Runs at level 0 and 1 are always taken, so the next run lies at level 2 or deeper.
    output_level = levels.max_level if count == len(runs) else runs[count].level - 1
    files = tuple(file for run in runs[:count] for file in run.files)
    if len(files) == 1 and files[0].level == output_level:
        return None
    return Choice(files, output_level, output_level >= levels.highest_non_empty_level())
