"""Which compaction a bucket gets next, and what it tells readers of changes. Pure: live files in, Choice out.

    producer            picks                                      before-images               changelog
    none, input         universal (universal_compaction)           -                           -
    full-compaction     universal                                  rows of the oldest run      when all runs are taken
    lookup              universal, else all of level 0 (`forced`)  rows at level >= 1          of the level-0 files

With `lookup` a record at level >= 1 is the fully merged row of its key (law 5). For engines whose rows mix records this
shows in the sequence numbers, decision 0008: a level above the deepest has one number, FULL_ROW_NUMBER plus its place.
Files without it were compacted by somebody who kept no changelog; then all runs are merged once (`repairs`).
deduplicate keeps its numbers; where they do not show that newer levels win, all levels are looked at (`newest_wins`).

A writer divides the work of `lookup` (`Share`, docs/decisions/0011) and the levels (`levels.division_of`): what a
commit waits for moves level 0 up with its changelog, and a pick that would rewrite much of what lies above level 0 is
left to a compaction behind the commit, which takes none but old levels. The first levels are where commits go
meanwhile; their runs move down as they are once nothing is due in the old levels. When the first levels are full before
that, commits merge level 1 along, and once it has grown as large, the whole pick is due at once.
Source: Paimon `LookupMergeTreeCompactRewriter`, `ForceUpLevel0Compaction`; format.md section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import Final

from widetable import options as opt
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.levels import Levels, division_of, levels_of
from widetable.lsm.sorted_run import SortedRun
from widetable.lsm.universal_compaction import (
    Choice,
    extend,
    force_level0,
    make_room,
    pick,
    widen,
)
from widetable.merge.engine import MergeEngine, PartialMerge
from widetable.options import TableOptions
from widetable.schema import TableSchema

# On disk: never change (docs/decisions/0008). Above what counting writers reach, below nanoseconds of any clock.
FULL_ROW_NUMBER: Final = 1 << 40
_MOST_LEVELS: Final = 1 << 10


class Share(Enum):
    """Which part of the work that is due in a bucket: all of it, what a commit waits for, or the rest."""

    ALL = "all"
    COMMIT = "commit"
    REST = "rest"


def plan_bucket(
    schema: TableSchema,
    engine: MergeEngine,
    files: Iterable[DataFileMeta],
    *,
    full: bool,
    share: Share = Share.ALL,
) -> Choice | None:
    """What to compact in a bucket with these live files, or None; widened where the engine asks for the base.

    Where rows are only merged when they are read, files are moved in a full compaction and left alone otherwise: else
    every commit would look at all of them again. A bucket with files of a newer schema is left to a compactor that
    knows it: this one would lose their new columns.
    """
    files = tuple(files)
    if any(file.schema_id > schema.id for file in files):
        return None
    options = schema.typed_options
    levels = levels_of(files, options)
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer == "lookup":
        if share is Share.REST:
            return _lookup_rest(schema, engine, levels)
        return _lookup(schema, engine, levels, full=full, divides=share is Share.COMMIT)
    if share is Share.REST:
        return None
    choice = _silent(schema, engine, levels, full=full)
    if choice is not None and producer == "full-compaction" and choice.takes_all(levels):
        return replace(choice, known_level=levels.base_level())
    return choice


def _silent(
    schema: TableSchema, engine: MergeEngine, levels: Levels, *, full: bool
) -> Choice | None:
    """The pick of a table whose compactions tell nothing."""
    choice = pick(levels, schema.typed_options, full=full)
    if choice is None:
        return None
    allowed = _partial_merge(schema, engine, choice)
    if allowed is PartialMerge.WITH_BASE:
        return widen(levels)
    if allowed is PartialMerge.ALWAYS and engine.mixes_records:
        return extend(levels, choice)
    return choice if full or allowed is PartialMerge.ALWAYS else None


def _lookup(
    schema: TableSchema, engine: MergeEngine, levels: Levels, *, full: bool, divides: bool
) -> Choice | None:
    """divides: whether a compaction behind the commit follows."""
    if engine.mixes_records and not holds_full_rows(levels):
        choice = widen(levels)
        return (
            None
            if choice is None
            else _telling(schema, replace(choice, repairs=True), levels, engine)
        )
    options = schema.typed_options
    choice = pick(levels, options, full=full)
    if divides:
        choice = _for_commit(schema, engine, levels, choice)
    elif choice is None and is_due(levels, options):
        choice = force_level0(levels)
    if choice is None:
        return None
    if _partial_merge(schema, engine, choice) is PartialMerge.WITH_BASE:
        choice = widen(levels) or choice
    return _telling(schema, choice, levels, engine)


def _for_commit(
    schema: TableSchema, engine: MergeEngine, levels: Levels, choice: Choice | None
) -> Choice | None:
    """What a commit waits for, of the pick of all levels."""
    options = schema.typed_options
    if choice is None and not is_due(levels, options):
        return None
    commit_levels = division_of(levels, options).commit_levels
    is_rest_due = _lookup_rest(schema, engine, levels) is not None
    room = None if is_rest_due else make_room(levels, commit_levels)
    is_put_off = choice is not None and (is_rest_due or rewrites_much(choice, options))
    if choice is None or (
        is_put_off and (room is not None or not _is_level1_full(levels, options))
    ):
        return room or force_level0(levels, commit_levels if is_rest_due else None)
    return choice


def _lookup_rest(schema: TableSchema, engine: MergeEngine, levels: Levels) -> Choice | None:
    """What is due among the old levels, when it is much. Commits that come meanwhile do not change the answer."""
    if engine.mixes_records and not holds_full_rows(levels):
        return None
    options = schema.typed_options
    division = division_of(levels, options)
    old = levels.remove(file for file in levels.files if file.level <= division.commit_levels)
    choice = pick(old, options, full=False, trigger=division.rest_trigger)
    if choice is None or not rewrites_much(choice, options):
        return None
    if _partial_merge(schema, engine, choice) is PartialMerge.WITH_BASE:
        choice = widen(old) or choice
    return _telling(schema, choice, old, engine)


def rewrites_much(choice: Choice, options: TableOptions) -> bool:
    """Whether a commit should not wait for it: it takes more above level 0 than may be rewritten inline."""
    known_bytes = sum(file.file_size for file in choice.files if file.level > 0)
    return known_bytes > options.get(opt.INLINE_COMPACTION_SIZE)


def _is_level1_full(levels: Levels, options: TableOptions) -> bool:
    level1_bytes = sum(file.file_size for file in levels.files if file.level == 1)
    return level1_bytes > options.get(opt.INLINE_COMPACTION_SIZE)


def is_due(levels: Levels, options: TableOptions) -> bool:
    """Whether level 0 must move up now: always with `radical`, with `gentle` when enough files wait."""
    waiting = sum(file.level == 0 for file in levels.files)
    if options.get(opt.LOOKUP_COMPACT) == "radical":
        return waiting > 0
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    asked = options.get(opt.LOOKUP_COMPACT_MAX_INTERVAL)
    return waiting >= max(trigger, 2 * trigger if asked is None else asked, 1)


def holds_full_rows(levels: Levels) -> bool:
    """Whether every level >= 1 shows that lookup compactions wrote it; the deepest has nothing to be merged with."""
    numbers = [_number(run) for run in reversed(levels.sorted_runs()) if run.level > 0]
    above = numbers[1:]
    if not all(low == high and _is_full_row_number(low) for low, high in above):
        return False
    return all(older[1] < newer[0] for older, newer in pairwise(numbers))


def _telling(schema: TableSchema, choice: Choice, levels: Levels, engine: MergeEngine) -> Choice:
    """The choice with what it takes to know the rows before, and to keep the next levels in order."""
    taken = set(choice.files)
    below = tuple(run for run in levels.sorted_runs() if not taken.issuperset(run.files))
    number = None
    if engine.mixes_records:
        highest = max((_number(run)[1] for run in below), default=-1)
        number = max(FULL_ROW_NUMBER, highest + 1) if below else 0
    return replace(
        choice,
        known_level=1,
        below=below,
        newest_wins=engine.mixes_records or _ascend(schema, below),
        sequence_number=number,
    )


def _ascend(schema: TableSchema, below: Sequence[SortedRun]) -> bool:
    """Whether every row of a newer run sorts after all rows of the older ones. In a table of whole rows a late record
    may lie above the one that wins: where it was moved up alone, or is of a writer that was overtaken.
    """
    numbers = [_number(run) for run in reversed(below)]
    in_order = all(older[1] < newer[0] for older, newer in pairwise(numbers))
    return in_order and not schema.sequence_fields


def _number(run: SortedRun) -> tuple[int, int]:
    """The lowest and the highest sequence number of a run."""
    lowest = min(file.min_sequence_number for file in run.files)
    return lowest, max(file.max_sequence_number for file in run.files)


def _is_full_row_number(number: int) -> bool:
    return FULL_ROW_NUMBER <= number < FULL_ROW_NUMBER + _MOST_LEVELS


def _partial_merge(schema: TableSchema, engine: MergeEngine, choice: Choice) -> PartialMerge:
    has_deletes = any(file.delete_row_count != 0 for file in choice.files)
    return engine.partial_merge(schema, has_deletes=has_deletes)
