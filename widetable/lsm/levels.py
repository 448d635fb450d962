"""The level structure of one bucket: level-0 files, and one sorted run per level above.

With `changelog-producer=lookup` every commit moves its level-0 files up, and rewriting the base takes longer than the
next commits may wait. So the levels are divided (`division_of`):

    level 0        [ ][ ]            a commit's files
    1 .. 3         ▄  ▄  ▄           commit levels: small merges, done before the commit returns
    ───────────────────────────────
    4 .. bottom    ██ ████ ███████   old levels: compacted after commits from `rest_trigger` runs on; there is one
                                     level more than that, so that commits find a free one meanwhile

Neither side touches a file of the other, so both may run at once (docs/decisions/0011). With the trigger 5:

    num-levels        2      4      6      8      10 (default)   14
    commit levels     1      1      1      1      1 .. 3         1 .. 3
    old levels        none   2, 3   2..5   2..7   4 .. 9         4 .. 13
    rest_trigger      2      2      3      5      5              5

Source: Paimon `Levels`; format.md section 9. Values only: `remove` returns a new value, nothing is raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.sorted_run import SortedRun, level0_age
from widetable.merge.engine import unchecked_engine
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema

# How many commits fit beside a rewrite of the old levels. Paimon also lets writers continue for three runs above the
# trigger (`num-sorted-run.stop-trigger`).
_MAX_COMMIT_LEVELS: Final = 3
# A level is an int in manifests; users who never want to compact set the trigger to the largest one.
_MAX_LEVELS: Final = 2**31 - 1
# With fewer runs the base would be rewritten after every commit.
_MIN_REST_TRIGGER: Final = 2


@dataclass(frozen=True)
class Levels:
    """The live files of one bucket. num_levels includes level 0, so the bottom level is num_levels - 1."""

    num_levels: int
    files: frozenset[DataFileMeta]

    @property
    def max_level(self) -> int:
        return self.num_levels - 1

    def sorted_runs(self) -> tuple[SortedRun, ...]:
        """Return all runs, newest first: each level-0 file by itself, then levels 1, 2, ... that have files.

        The files of a run are not in key order here: picking needs sizes only (`sorted_run.sections` decodes keys).
        """
        fresh = sorted((f for f in self.files if f.level == 0), key=level0_age, reverse=True)
        runs = [SortedRun(0, (file,)) for file in fresh]
        for level in sorted({file.level for file in self.files} - {0}):
            members = sorted((f for f in self.files if f.level == level), key=lambda f: f.file_name)
            runs.append(SortedRun(level, tuple(members)))
        return tuple(runs)

    def base_level(self) -> int:
        """Return the level of the oldest run, with all rows that were ever merged together: the deepest level >= 1 with
        files, else the bottom. It need not be the bottom: `num-levels` may have grown since.
        """
        return max((file.level for file in self.files), default=0) or self.max_level

    def remove(self, files: Iterable[DataFileMeta]) -> Levels:
        return replace(self, files=self.files - frozenset(files))


def levels_of(files: Iterable[DataFileMeta], options: TableOptions) -> Levels:
    """Return the levels of a bucket with these live files.

    `num-levels` defaults to the compaction trigger + 1, or, if rows are looked up, to as many levels as `division_of`
    divides; a bucket that already has a deeper level keeps its depth.
    """
    files = frozenset(files)
    num_levels = options.get(opt.NUM_LEVELS)
    if num_levels is None:
        num_levels = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER) + 1
        if compacts_with_lookup(options):
            num_levels = 1 + _MAX_COMMIT_LEVELS + _old_levels(options)
    deepest = max((file.level for file in files), default=0)
    return Levels(min(max(num_levels, deepest + 1, 2), _MAX_LEVELS), files)


def compacts_with_lookup(options: TableOptions) -> bool:
    """Return whether moving level 0 up looks up older rows, for the changelog, or so that each key is in one file."""
    stores_once = unchecked_engine(options).stores_keys_once
    has_vectors = options.get(opt.DELETION_VECTORS_ENABLED)
    return bool(stores_once or has_vectors or options.get(opt.CHANGELOG_PRODUCER) == "lookup")


def looks_up_rows(schema: TableSchema) -> bool:
    """Return whether compactions of a table look up older rows. Those of an append table have nothing to look up by."""
    return schema.has_key and compacts_with_lookup(schema.typed_options)


@dataclass(frozen=True)
class LevelDivision:
    """The division of the levels above 0 between commits and the compaction after them (docs/decisions/0011).

    commit_levels: levels 1 .. commit_levels are for commits while older levels are rewritten. rest_trigger: the number
    of sorted runs in the old levels from which on these are compacted.
    """

    commit_levels: int
    rest_trigger: int


def division_of(levels: Levels, options: TableOptions) -> LevelDivision:
    """Divide the levels: the old levels take precedence; commits get the remaining levels, at least one."""
    old_levels = _old_levels(options)
    commit_levels = min(max(levels.max_level - old_levels, 1), _MAX_COMMIT_LEVELS)
    trigger = min(old_levels, levels.max_level - commit_levels) - 1
    return LevelDivision(commit_levels, max(trigger, _MIN_REST_TRIGGER))


def _old_levels(options: TableOptions) -> int:
    """Return the number of old levels, one more than the trigger: if all are full, the rule by count always picks."""
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    return max(trigger, _MIN_REST_TRIGGER) + 1
