"""The level structure of one bucket: level-0 files, and one sorted run per level above.

With `changelog-producer=lookup` every commit moves its level-0 files up, and rewriting the base takes longer than the
next commits may wait. So the levels are divided (`division_of`):

    level 0        [ ][ ]            a commit's files
    1 .. 3         ▄  ▄  ▄           commit levels: small merges, done before the commit returns
    ───────────────────────────────
    4 .. bottom    ██ ████ ███████   old levels: from `rest_trigger` runs on compacted behind commits; one level more
                                     than that, so that commits find a free one while this goes on

Neither side touches a file of the other, so both may run at once (docs/decisions/0011). With
the trigger 5:

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
from widetable.schema import options as opt
from widetable.schema.options import TableOptions

# So many commits fit beside a rewriting of the old levels. Paimon too lets writers go on for three runs above the
# trigger (`num-sorted-run.stop-trigger`).
_MOST_COMMIT_LEVELS: Final = 3
# A level is an int of manifests; who never wants to compact sets the trigger to the largest one.
_MOST_LEVELS: Final = 2**31 - 1
# With fewer runs the base would be rewritten behind every commit.
_LEAST_REST_TRIGGER: Final = 2


@dataclass(frozen=True)
class Levels:
    """Live files of one bucket. num_levels counts level 0, so the bottom level is num_levels - 1."""

    num_levels: int
    files: frozenset[DataFileMeta]

    @property
    def max_level(self) -> int:
        return self.num_levels - 1

    def sorted_runs(self) -> tuple[SortedRun, ...]:
        """All runs, newest first: each level-0 file by itself, then levels 1, 2, ... that have files.

        Files of a run are in no key order here: picking needs sizes only (`sorted_run.sections` decodes keys).
        """
        fresh = sorted((f for f in self.files if f.level == 0), key=level0_age, reverse=True)
        runs = [SortedRun(0, (file,)) for file in fresh]
        for level in sorted({file.level for file in self.files} - {0}):
            members = sorted((f for f in self.files if f.level == level), key=lambda f: f.file_name)
            runs.append(SortedRun(level, tuple(members)))
        return tuple(runs)

    def base_level(self) -> int:
        """Where the oldest run lies, with all rows that were ever merged together: the deepest level above 0 that has
        files, else the bottom. It need not be the bottom: `num-levels` may have grown since.
        """
        return max((file.level for file in self.files), default=0) or self.max_level

    def remove(self, files: Iterable[DataFileMeta]) -> Levels:
        return replace(self, files=self.files - frozenset(files))


def levels_of(files: Iterable[DataFileMeta], options: TableOptions) -> Levels:
    """The levels of a bucket with these live files.

    `num-levels` defaults to the compaction trigger + 1, where rows are looked up to as many as `division_of`
    divides; a bucket that already reaches deeper keeps its depth.
    """
    files = frozenset(files)
    wanted = options.get(opt.NUM_LEVELS)
    if wanted is None:
        wanted = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER) + 1
        if looks_up(options):
            wanted = 1 + _MOST_COMMIT_LEVELS + _old_levels(options)
    deepest = max((file.level for file in files), default=0)
    return Levels(min(max(wanted, deepest + 1, 2), _MOST_LEVELS), files)


def looks_up(options: TableOptions) -> bool:
    """Whether level 0 moves up with what lies below looked up: for the changelog, or so that a key is in one file."""
    is_first_row = options.get(opt.MERGE_ENGINE) == "first-row"
    has_vectors = options.get(opt.DELETION_VECTORS_ENABLED)
    return bool(is_first_row or has_vectors or options.get(opt.CHANGELOG_PRODUCER) == "lookup")


@dataclass(frozen=True)
class LevelDivision:
    """How the levels above level 0 are divided between commits and the compaction behind them (docs/decisions/0011).

    commit_levels: 1 .. commit_levels, where commits go while older levels are rewritten. rest_trigger: sorted runs in
    the levels below them from which on these are compacted.
    """

    commit_levels: int
    rest_trigger: int


def division_of(levels: Levels, options: TableOptions) -> LevelDivision:
    """The old levels come first: commits get what is left of few levels, one at least."""
    old_levels = _old_levels(options)
    commit_levels = min(max(levels.max_level - old_levels, 1), _MOST_COMMIT_LEVELS)
    trigger = min(old_levels, levels.max_level - commit_levels) - 1
    return LevelDivision(commit_levels, max(trigger, _LEAST_REST_TRIGGER))


def _old_levels(options: TableOptions) -> int:
    """One level more than the trigger: when all are full, the rule that counts runs takes some in any case."""
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    return max(trigger, _LEAST_REST_TRIGGER) + 1
