"""A bucket over time: the rules of the engine itself decide which runs are merged, rows and bytes are counted only.

    each round:  level-0 files of so many rows ─► plan_bucket (the maintainer's scope) ─► runs of other sizes

Keys of updates are drawn uniformly from those that the bucket has, so runs of a and b keys out of K have
K·(1 - (1 - a/K)·(1 - b/K)) keys together. Rows above level 0 are full rows, as a lookup changelog makes them. Pure.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from benchmarks import two_groups
from widetable.format.binary_row import EMPTY_ROW
from widetable.format.column_stats import EMPTY_STATS
from widetable.format.data_file_meta import DataFileMeta, upgrade
from widetable.lsm.bucket_plan import Merge, Plan, Scope, plan_bucket
from widetable.lsm.levels import levels_of
from widetable.merge.engine import MergeEngine, engine_of
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

# Sequence numbers of level 0 lie above those of full rows, as those of a clock do.
_FIRST_NUMBER: Final = 1 << 60


@dataclass(frozen=True)
class FileBytes:
    """Of Parquet files: so many bytes per row, and per file whatever it holds."""

    per_row: float
    per_file: float

    def of(self, rows: float, files: float = 1) -> float:
        return rows * self.per_row + files * self.per_file


@dataclass(frozen=True)
class BucketLoad:
    """keys: that the bucket has (inf: every row is of a new one). base_rows: of them in the bottom level at first.

    round_files: level-0 files that come between two rounds. file_rows: rows of each, one per key. seed: files have more
    or less rows by chance, which the rules notice where sizes are compared; None: all have the same.
    """

    keys: float
    base_rows: float
    round_files: int
    file_rows: float
    seed: int | None = None


@dataclass(frozen=True)
class RunSize:
    """A sorted run above level 0."""

    level: int
    rows: float


@dataclass(frozen=True)
class SimulatedHistory:
    """Sums over all rounds. moved_rows: of level-0 files that moved up. changed_rows: keys that they had, counted once
    per round. rewritten_rows: written to levels above 0, in merges of that many files.

    longest_merge_rows: written by the largest of them. mean_rows, mean_runs: that lie above level 0 after a round.
    cycles: how many times the bottom level was rewritten. runs: after the last round, newest first.
    """

    rounds: int
    moved_rows: float
    changed_rows: float
    rewritten_rows: float
    merges: int
    longest_merge_rows: float
    mean_rows: float
    mean_runs: float
    cycles: int
    runs: tuple[RunSize, ...]

    @property
    def amplification(self) -> float:
        """Rows written above level 0 for each key that changed."""
        return self.rewritten_rows / self.changed_rows if self.changed_rows else 1.0


def distinct(keys: float, rows: Iterable[float]) -> float:
    """How many keys runs have together; each has `rows` of the `keys`, drawn uniformly."""
    if math.isinf(keys):
        return sum(rows)
    return keys * (1 - math.prod(1 - min(count / keys, 1.0) for count in rows))


def drawn(keys: float, draws: float) -> float:
    """How many different keys so many draws with repetition give."""
    if math.isinf(keys) or keys <= 1:
        return min(draws, keys)
    return keys * -math.expm1(draws * math.log1p(-1 / keys))


@functools.lru_cache
def lookup_schema(**options: str) -> TableSchema:
    """A table of two sequence groups with a lookup changelog, as `two_groups` has it."""
    chosen = {name.replace("_", "-"): value for name, value in options.items()}
    return new_schema(two_groups.schema(), primary_key=["k"], options=two_groups.OPTIONS | chosen)


class _SimulatedBucket:
    """The live files, and what became of rows so far."""

    def __init__(
        self, load: BucketLoad, level0: FileBytes, full: FileBytes, schema: TableSchema
    ) -> None:
        self._load, self._level0, self._full = load, level0, full
        self._schema: TableSchema = schema
        self._engine: MergeEngine = engine_of(schema)
        self._rng = None if load.seed is None else random.Random(load.seed)
        self._number = _FIRST_NUMBER
        self._names = 0
        self.files: list[DataFileMeta] = []
        self._rows: dict[str, float] = {}
        self.moved = self.changed = self.rewritten = self.longest = 0.0
        self.merges = self.cycles = 0
        self.bottom = levels_of((), schema.typed_options).max_level
        if load.base_rows:
            self._add(self.bottom, load.base_rows, 0)

    def round(self) -> None:
        for _ in range(self._load.round_files):
            self._number += 1
            rows = self._load.file_rows
            if self._rng is not None:
                rows = max(self._rng.gauss(rows, math.sqrt(rows)), 1.0)
            self._add(0, rows, self._number)
        self._carry_out(plan_bucket(self._schema, self._engine, self.files, Scope.DUE))

    def runs(self) -> tuple[RunSize, ...]:
        above = sorted((file for file in self.files if file.level), key=lambda file: file.level)
        return tuple(RunSize(file.level, self._rows[file.file_name]) for file in above)

    def _carry_out(self, plan: Plan) -> None:
        for step in plan:
            self.files = [file for file in self.files if file not in step.files]
            if not isinstance(step, Merge):
                self.files += [upgrade(file, step.level) for file in step.files]
                continue
            fresh = [self._rows[file.file_name] for file in step.files if file.level == 0]
            rows = distinct(self._load.keys, (self._rows[file.file_name] for file in step.files))
            self.moved += sum(fresh)
            self.changed += distinct(self._load.keys, fresh)
            self.rewritten += rows
            self.longest = max(self.longest, rows)
            self.merges += 1
            self.cycles += step.level == self.bottom
            number = step.sequence_number
            assert number is not None, "a partial update with a lookup changelog numbers its rows"
            self._add(step.level, rows, number)

    def _add(self, level: int, rows: float, number: int) -> None:
        self._names += 1
        name = f"data-{self._names}"
        size = (self._full if level else self._level0).of(rows)
        self._rows[name] = rows
        self.files.append(_file(name, level, rows, round(size), number))


def history(
    load: BucketLoad,
    level0: FileBytes,
    full: FileBytes,
    rounds: int,
    schema: TableSchema | None = None,
    *,
    most_cycles: int | None = None,
) -> SimulatedHistory:
    """The bucket after so many rounds, or once its bottom level was rewritten `most_cycles` times."""
    bucket = _SimulatedBucket(load, level0, full, schema or lookup_schema())
    done, rows, runs = 0, 0.0, 0.0
    for _ in range(rounds):
        bucket.round()
        done += 1
        now = bucket.runs()
        rows += sum(run.rows for run in now)
        runs += len(now)
        if most_cycles is not None and bucket.cycles >= most_cycles:
            break
    return SimulatedHistory(
        done,
        bucket.moved,
        bucket.changed,
        bucket.rewritten,
        bucket.merges,
        bucket.longest,
        rows / max(done, 1),
        runs / max(done, 1),
        bucket.cycles,
        bucket.runs(),
    )


def _file(name: str, level: int, rows: float, size_bytes: int, number: int) -> DataFileMeta:
    # The rules look at sizes and numbers, never at keys.
    return DataFileMeta(
        name,
        size_bytes,
        max(round(rows), 1),
        EMPTY_ROW,
        EMPTY_ROW,
        EMPTY_STATS,
        EMPTY_STATS,
        number,
        number,
        0,
        level,
        delete_row_count=0,
    )
