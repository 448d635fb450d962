"""The level structure of one bucket: level-0 files, and one sorted run per level above.

Source: Paimon `Levels`; format.md section 9. Values only: `add` and `remove` return new values, nothing is raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from widetable import options as opt
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.sorted_run import SortedRun, level0_age
from widetable.options import TableOptions


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

    def highest_non_empty_level(self) -> int:
        """-1 when there is no file."""
        return max((file.level for file in self.files), default=-1)

    def base_level(self) -> int:
        """Where the oldest run lies, with all rows that were ever merged together: the deepest level above 0 that has
        files, else the bottom. It need not be the bottom: `num-levels` may have grown since.
        """
        deepest = self.highest_non_empty_level()
        return deepest if deepest > 0 else self.max_level

    def add(self, files: Iterable[DataFileMeta]) -> Levels:
        return replace(self, files=self.files | frozenset(files))

    def remove(self, files: Iterable[DataFileMeta]) -> Levels:
        return replace(self, files=self.files - frozenset(files))


def levels_of(files: Iterable[DataFileMeta], options: TableOptions) -> Levels:
    """The levels of a bucket with these live files.

    `num-levels` defaults to the compaction trigger + 1; a bucket that already reaches deeper keeps its depth.
    """
    files = frozenset(files)
    wanted = options.get(opt.NUM_LEVELS) or options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER) + 1
    deepest = max((file.level for file in files), default=0)
    return Levels(max(wanted, deepest + 1, 2), files)
