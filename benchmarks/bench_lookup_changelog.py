"""Rows/s and the worst commit of partial updates with a lookup changelog, against Paimon's Java on the same records.

Two sequence groups (two_groups.py), one bucket, Parquet with zstd, local disk; each commit returns with its changelog
(`lookup-wait`). Java writes once by a writer per commit (its batch API) and once by one writer for all commits (its
streaming API, which keeps its lookup files), each in a JVM that has written a small table before. The commits of all
sides alternate, so that the ratio, of total times, is of the same minutes; it is taken against the faster of the two.
What came out is compared: rows of the last snapshot, and how many changelog rows each commit made.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import widetable as wt
from benchmarks import two_groups
from benchmarks.harness import Row, Size, scratch
from benchmarks.rival import NEWEST, Rival, RivalAbsent
from benchmarks.two_groups import Commit

TARGET, WORST_SECONDS = 10.0, 1.0
_WARM_SEED, _SEED = 1, 2


@dataclass(frozen=True)
class _Shape:
    rows: int
    keys: int
    commits: int


SHAPES = {
    Size.FULL: _Shape(150_000, 500_000, 10),
    Size.SHORT: _Shape(30_000, 100_000, 5),
    Size.TINY: _Shape(500, 1_000, 3),
}
WARM = _Shape(20_000, 60_000, 4)


@dataclass
class _Side:
    """One who writes. commit: the number of a commit to its seconds; cpu_clock: CPU seconds of its process."""

    name: str
    table: Path
    commit: Callable[[int], float]
    cpu_clock: Callable[[], float]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def take_turn(self, number: int) -> None:
        before = self.cpu_clock()
        self.seconds.append(self.commit(number))
        self.cpu_seconds += self.cpu_clock() - before

    @property
    def total(self) -> float:
        return sum(self.seconds)


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    commits = two_groups.commits(_SEED, shape.rows, shape.keys, shape.commits)
    with scratch("lookup_changelog") as work, ExitStack() as stack:
        mine = [
            _Side("all columns", *ours(work / "wide", commits, write_wide), time.process_time),
            _Side("own columns", *ours(work / "narrow", commits, write_narrow), time.process_time),
        ]
        absent = "the tiny size has no rival" if size is Size.TINY else ""
        rivals: list[_Side] = []
        try:
            if not absent:
                rivals = stack.enter_context(_rivals(work, commits))
        except RivalAbsent as why:
            absent = str(why)
        sides = [*mine, *rivals]
        for number in range(shape.commits):
            # Alternate who goes first: the others find warmer page caches.
            first = number % len(sides)
            for side in sides[first:] + sides[:first]:
                side.take_turn(number)
        _check_same(sides)
        return [row for side in mine for row in _rows_of(side, rivals, absent, size)]


def ours(
    warehouse: Path, commits: list[Commit], write: Callable[[wt.Table, Commit], float]
) -> tuple[Path, Callable[[int], float]]:
    catalog = wt.Catalog(str(warehouse))
    warm = catalog.create_table(
        "bench.warm", two_groups.schema(), primary_key=["k"], options=two_groups.OPTIONS
    )
    for commit in two_groups.commits(_WARM_SEED, 1_000, 2_000, WARM.commits):
        write(warm, commit)
    table = catalog.create_table(
        "bench.changelog", two_groups.schema(), primary_key=["k"], options=two_groups.OPTIONS
    )
    return Path(table.path), lambda number: write(table, commits[number])


def write_wide(table: wt.Table, commit: Commit) -> float:
    """As the rival gets it: rows of all columns, null in the other group's."""
    rows = commit.to_arrow()
    start = time.perf_counter()
    table.write(rows)
    return time.perf_counter() - start


def write_narrow(table: wt.Table, commit: Commit) -> float:
    """As two streams give it: each its own columns; in one commit."""
    parts = [commit.group_to_arrow(group) for group in range(two_groups.GROUPS)]
    start = time.perf_counter()
    base, messages = table.sequence_base(), []
    for task, part in enumerate(parts):
        with table.new_writer(
            part.column_names, task=task, tasks=len(parts), sequence_base=base
        ) as writer:
            writer.write(part.to_batches())
            messages += writer.finish()
    table.commit_append(messages)
    return time.perf_counter() - start


@contextmanager
def _rivals(work: Path, commits: list[Commit]) -> Iterator[list[_Side]]:
    """Both ways of Java, warm, each in a process of its own. Raises RivalAbsent."""
    version = os.environ.get("WIDETABLE_BENCH_RIVAL", NEWEST)
    files = _saved(work / "data", commits)
    warm = _saved(work / "warm", two_groups.commits(_WARM_SEED, WARM.rows, WARM.keys, WARM.commits))
    with ExitStack() as stack:
        sides = []
        for mode in ("batch", "stream"):
            rival = stack.enter_context(Rival(version, mode, work / f"{mode}.log"))
            print(f"rival: Paimon Java {version} ({rival.jar.name}), {mode} writer", flush=True)
            rival.open(work / f"{mode}-warm", warm[0])
            for file in warm:
                rival.commit(file)
            rival.close_table()
            table = rival.open(work / mode, files[0])
            name = f"Paimon Java {version} {mode}"
            sides.append(_Side(name, table, _committing(rival, files), rival.cpu_seconds))
        yield sides


def _committing(rival: Rival, files: list[Path]) -> Callable[[int], float]:
    return lambda number: rival.commit(files[number])


def _saved(directory: Path, commits: list[Commit]) -> list[Path]:
    directory.mkdir()
    return [commit.save(directory / f"{number}.rows") for number, commit in enumerate(commits)]


def _check_same(sides: list[_Side]) -> None:
    """The same rows, and changelogs of the same length, or the numbers compare nothing."""
    tables = [wt.Table.open(str(side.table)) for side in sides]
    counts = [
        [s.changelog_record_count for s in table.snapshots() if s.changelog_record_count]
        for table in tables
    ]
    rows = [table.scan().to_arrow().sort_by("k").combine_chunks() for table in tables]
    for side, count, content in zip(sides, counts, rows, strict=True):
        if not content.equals(rows[0]):
            raise AssertionError(f"{side.name} has other rows than {sides[0].name}")
        if count != counts[0]:
            raise AssertionError(
                f"{side.name} has {count} changelog rows, {sides[0].name} {counts[0]}"
            )


def _rows_of(side: _Side, rivals: list[_Side], absent: str, size: Size) -> list[Row]:
    speed = _speed(side, size)
    worst = max(side.seconds)
    details: dict[str, object] = {each.name: each.seconds for each in [side, *rivals]}
    details["CPU seconds"] = {each.name: each.cpu_seconds for each in [side, *rivals]}
    ratio = worst_ratio = None
    theirs, their_worst = f"not measured: {absent}", ""
    if rivals:
        fastest = min(rivals, key=lambda rival: rival.total)
        ratio, worst_ratio = fastest.total / side.total, max(fastest.seconds) / worst
        theirs = "; ".join(
            f"{rival.name} {_speed(rival, size):.1f} K rows/s ({rival.cpu_seconds:.0f} s CPU)"
            for rival in rivals
        )
        their_worst = ", ".join(f"{max(rival.seconds):.2f} s" for rival in rivals)
        by_commit = [b / a for a, b in zip(side.seconds, fastest.seconds, strict=True)]
        details |= {"ratios": by_commit, "median ratio": statistics.median(by_commit)}
        details["CPU ratio"] = fastest.cpu_seconds / side.cpu_seconds
    what, is_full = f"lookup changelog, {side.name}", size is Size.FULL
    return [
        Row(
            what,
            f"{speed:.0f} K rows/s ({side.cpu_seconds:.1f} s CPU)",
            theirs,
            ratio,
            f">= {TARGET:.0f}",
            ratio >= TARGET if is_full and ratio is not None else None,
            details,
        ),
        Row(
            f"{what}, worst commit",
            f"{worst:.2f} s (median {statistics.median(side.seconds):.2f} s)",
            their_worst,
            worst_ratio,
            f"<= {WORST_SECONDS:.0f} s",
            worst <= WORST_SECONDS if is_full else None,
        ),
    ]


def _speed(side: _Side, size: Size) -> float:
    """Thousands of rows per second over all commits."""
    shape = SHAPES[size]
    return shape.rows * shape.commits / side.total / 1e3
