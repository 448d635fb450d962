"""Rows/s and the worst commit of partial updates with a lookup changelog, against Paimon's Java on the same records.

Two sequence groups (two_groups.py), one bucket, Parquet with zstd, local disk; each commit returns with its changelog
(`lookup-wait`). A pass is a new table and all commits into it, one after the other without a break; what we compact
behind commits goes on meanwhile, and the pass ends when nothing of it is left. Each round has a pass of every side, in
turning order; what a pass left unwritten is forced to the disk before the next (ours forces its own files, Java leaves
them to the kernel). Java writes once by a writer per commit (its batch API) and once by one writer for all commits (its
streaming API, which keeps its lookup files), each in a JVM that has written a small table before. A round's ratio is
taken against the faster of the two, a pass's worst commit is the one that took longest until the call returned.
What came out is compared: rows of the last snapshot, and how many changelog rows each commit made.
"""

from __future__ import annotations

import os
import shutil
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
from benchmarks.two_groups import GroupCommit

TARGET, WORST_SECONDS = 5.0, 2.0
_WARM_SEED, _SEED = 1, 2


@dataclass(frozen=True)
class _ChangelogShape:
    rows: int
    keys: int
    commits: int
    rounds: int


SHAPES = {
    Size.FULL: _ChangelogShape(150_000, 500_000, 10, 3),
    Size.SHORT: _ChangelogShape(30_000, 100_000, 5, 1),
    Size.TINY: _ChangelogShape(500, 1_000, 3, 1),
}
WARM = _ChangelogShape(20_000, 60_000, 4, 1)


@dataclass(frozen=True)
class Pass:
    """One side's commits into one table. commits: seconds until each returned; total: until nothing was left to do."""

    table: Path
    commits: list[float]
    total: float
    cpu_seconds: float

    @property
    def worst(self) -> float:
        return max(self.commits)


@dataclass
class _Side:
    """One who writes. write: makes a pass into a table below a new directory."""

    name: str
    write: Callable[[Path], Pass]
    passes: list[Pass] = field(default_factory=list)

    def median(self, value: Callable[[Pass], float]) -> float:
        return statistics.median(map(value, self.passes))

    @property
    def total(self) -> float:
        return self.median(lambda one: one.total)

    @property
    def cpu_seconds(self) -> float:
        return self.median(lambda one: one.cpu_seconds)


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    commits = two_groups.commits(_SEED, shape.rows, shape.keys, shape.commits)
    with scratch("lookup_changelog") as work, ExitStack() as stack:
        mine = [
            _Side("all columns", lambda path: our_pass(path, commits, write_wide)),
            _Side("own columns", lambda path: our_pass(path, commits, write_narrow)),
        ]
        absent = "the tiny size has no rival" if size is Size.TINY else ""
        rivals: list[_Side] = []
        try:
            if not absent:
                rivals = stack.enter_context(_rivals(work, commits))
        except RivalAbsent as why:
            absent = str(why)
        sides = [*mine, *rivals]
        for number in range(shape.rounds):
            _round(sides[number:] + sides[:number], work / "pass")
        return [row for side in mine for row in _rows_of(side, rivals, absent, size)]


def _round(sides: list[_Side], directory: Path) -> None:
    for at, side in enumerate(sides):
        os.sync()  # what the pass before left unwritten is not this one's to wait for
        side.passes.append(side.write(directory / str(at)))
        print(f"{side.name}: {side.passes[-1].total:.1f} s", flush=True)
    _check_same(sides)
    shutil.rmtree(directory)


def our_pass(
    warehouse: Path, commits: list[GroupCommit], write: Callable[[wt.Table, GroupCommit], float]
) -> Pass:
    """Into a new table, by this process, which has written a small one right before."""
    catalog = wt.Catalog(str(warehouse))
    warm = catalog.create_table(
        "bench.warm", two_groups.schema(), primary_key=["k"], options=two_groups.OPTIONS
    )
    for commit in two_groups.commits(_WARM_SEED, 1_000, 2_000, WARM.commits):
        write(warm, commit)
    table = catalog.create_table(
        "bench.changelog", two_groups.schema(), primary_key=["k"], options=two_groups.OPTIONS
    )
    cpu = time.process_time()
    seconds = [write(table, commit) for commit in commits]
    start = time.perf_counter()
    table.wait_for_compactions()
    total = sum(seconds) + time.perf_counter() - start
    return Pass(Path(table.path), seconds, total, time.process_time() - cpu)


def write_wide(table: wt.Table, commit: GroupCommit) -> float:
    """As the rival gets it: rows of all columns, null in the other group's."""
    rows = commit.to_arrow()
    start = time.perf_counter()
    table.write(rows)
    return time.perf_counter() - start


def write_narrow(table: wt.Table, commit: GroupCommit) -> float:
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
def _rivals(work: Path, commits: list[GroupCommit]) -> Iterator[list[_Side]]:
    """Both ways of Java, warm, each in a process of its own. Raises RivalAbsent."""
    version = os.environ.get("WIDETABLE_BENCH_RIVAL", NEWEST)
    files = _saved(work / "data", commits)
    warm = _saved(work / "warm", two_groups.commits(_WARM_SEED, WARM.rows, WARM.keys, WARM.commits))
    with ExitStack() as stack:
        sides = []
        for mode in ("batch", "stream"):
            rival = stack.enter_context(Rival(version, mode, work / f"{mode}.log"))
            print(f"rival: Paimon Java {version} ({rival.jar.name}), {mode} writer", flush=True)
            _rival_pass(rival, work / f"{mode}-warm", warm)
            sides.append(_Side(f"Paimon Java {version} {mode}", _passes_of(rival, files)))
        yield sides


def _passes_of(rival: Rival, files: list[Path]) -> Callable[[Path], Pass]:
    return lambda path: _rival_pass(rival, path, files)


def _rival_pass(rival: Rival, path: Path, files: list[Path]) -> Pass:
    table = rival.open(path, files[0])
    cpu = rival.cpu_seconds()
    seconds = [rival.commit(file) for file in files]
    cpu = rival.cpu_seconds() - cpu
    rival.close_table()
    return Pass(table, seconds, sum(seconds), cpu)


def _saved(directory: Path, commits: list[GroupCommit]) -> list[Path]:
    directory.mkdir()
    return [commit.save(directory / f"{number}.rows") for number, commit in enumerate(commits)]


def _check_same(sides: list[_Side]) -> None:
    """The same rows, and changelogs of the same length, or the numbers compare nothing."""
    tables = [wt.Table.open(str(side.passes[-1].table)) for side in sides]
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
    worst = side.median(lambda one: one.worst)
    details: dict[str, object] = {
        each.name: [{"commits": one.commits, "total": one.total} for one in each.passes]
        for each in [side, *rivals]
    }
    ratio = worst_ratio = None
    theirs, their_worst = f"not measured: {absent}", ""
    if rivals:
        rounds = list(zip(side.passes, *(rival.passes for rival in rivals), strict=True))
        ratios = [min(one.total for one in others) / ours.total for ours, *others in rounds]
        ratio = statistics.median(ratios)
        worst_ratio = statistics.median(
            min(one.worst for one in others) / ours.worst for ours, *others in rounds
        )
        theirs = "; ".join(_speed(rival, size) + f" ({rival.name})" for rival in rivals)
        their_worst = ", ".join(f"{rival.median(lambda one: one.worst):.2f} s" for rival in rivals)
        details["ratios"] = ratios
    what, is_full = f"lookup changelog, {side.name}", size is Size.FULL
    of_all = max(one.worst for one in side.passes)
    return [
        Row(
            what,
            _speed(side, size),
            theirs,
            ratio,
            f">= {TARGET:.0f}",
            ratio >= TARGET if is_full and ratio is not None else None,
            details,
        ),
        Row(
            f"{what}, worst commit",
            f"{worst:.2f} s (of all rounds {of_all:.2f} s)",
            their_worst,
            worst_ratio,
            f"<= {WORST_SECONDS:.0f} s",
            worst <= WORST_SECONDS if is_full else None,
        ),
    ]


def _speed(side: _Side, size: Size) -> str:
    """Over all commits."""
    shape = SHAPES[size]
    speed = shape.rows * shape.commits / side.total / 1e3
    return f"{speed:.1f} K rows/s, {side.cpu_seconds:.0f} s CPU"
