"""What declared columns cost that nobody writes: ten columns are written of 20, and of 200, 1,000 and 5,000.

A row is a task of wide_columns_process.py at one width beside the same at 20 columns. Both sides have a fresh process
for each round, in turn; the ratio of a measure is the median over the rounds of its paired ratios. A row's ratio is the
largest of those of its measures: the median and the worst of its calls (commits, reads), the peak of anonymous memory
of the process and all its children, and a scan of two columns afterwards. Tasks that read have the table that the first
round of a writing task left.

A process that takes too long or too much memory is killed. Its row says when, and its side is not tried again; rows
that need its table say so.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bounded_process import Bounds, Exceeded, Finished, run_bounded
from benchmarks.harness import Row, Size, linked_copy, scratch
from benchmarks.wide_columns_process import READS, TASKS, WRITES, Shape

TARGET = 1.3
_NARROW = 20
_PROCESS = "benchmarks.wide_columns_process"
_IN_SPARK = ("spark read", "spark read of one column", "spark write")
# A task that writes and one that reads: tests/benchmarks and tests/spark do all of them without a process for each.
_TINY = ("write-only", "explain")


@dataclass(frozen=True)
class _WideShape:
    """widths: declared columns, each held against 20. spark_calls: batches or reads of Spark."""

    widths: tuple[int, ...]
    rows: int
    keys: int
    calls: int
    spark_calls: int
    rounds: int
    bounds: Bounds
    tasks: tuple[str, ...] = tuple(TASKS)


SHAPES = {
    Size.FULL: _WideShape((200, 1_000, 5_000), 100_000, 200_000, 8, 3, 3, Bounds(250, 6 << 30)),
    Size.SHORT: _WideShape((1_000,), 20_000, 40_000, 6, 2, 1, Bounds(100, 4 << 30)),
    Size.TINY: _WideShape((40,), 200, 400, 2, 2, 1, Bounds(120, 2 << 30), _TINY),
}
_Outcome = Finished | Exceeded | str


@dataclass
class _Width:
    """One task at one width. outcomes: of each round so far; a text says why it was not run."""

    task: str
    columns: int
    outcomes: list[_Outcome] = field(default_factory=list)

    @property
    def failure(self) -> str | None:
        """Why there are no numbers, or not of all rounds."""
        return next((str(each) for each in self.outcomes if not isinstance(each, Finished)), None)

    @property
    def measures(self) -> list[dict[str, float]]:
        """Of each round that was done."""
        return [_measures(each) for each in self.outcomes if isinstance(each, Finished)]


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("wide_columns") as work:
        return [row for task in shape.tasks for row in _rows_of(task, shape, work, size)]


def _rows_of(task: str, shape: _WideShape, work: Path, size: Size) -> Iterator[Row]:
    for width in shape.widths:
        wide, narrow = _Width(task, width), _Width(task, _NARROW)
        for number in range(shape.rounds):
            # The second of a pair finds warmer page caches.
            for side in (wide, narrow) if number % 2 == 0 else (narrow, wide):
                side.outcomes.append(side.failure or _outcome(side, shape, work))
        row = _row(wide, narrow, size)
        print(f"{row.name}: {row.ours} ({row.theirs})", flush=True)
        yield row


def _outcome(side: _Width, shape: _WideShape, work: Path) -> _Outcome:
    """Runs the side once, in a table of its own. The first table that a writing task fills is kept for others."""
    table = work / "pass" / "bench.db" / "t"
    if side.task in READS:
        source = _kept(work, READS[side.task][0], side.columns)
        if not source.exists():
            return f"not done: without the table of {READS[side.task][0]}"
        linked_copy(source, table)
    calls = shape.spark_calls if side.task in _IN_SPARK else shape.calls
    numbers = Shape(side.columns, shape.rows, shape.keys, calls)
    done = run_bounded(
        shape.bounds,
        _PROCESS,
        side.task,
        table,
        numbers.columns,
        numbers.rows,
        numbers.keys,
        numbers.calls,
    )
    kept = _kept(work, side.task, side.columns)
    if side.task in WRITES and isinstance(done, Finished) and not kept.exists():
        linked_copy(table, kept)
    shutil.rmtree(work / "pass", ignore_errors=True)
    return done


def _kept(work: Path, task: str, columns: int) -> Path:
    return work / "kept" / f"{task.replace(' ', '-')}-{columns}" / "bench.db" / "t"


def _measures(done: Finished) -> dict[str, float]:
    calls, scan = done.printed["calls"], done.printed["scan"]
    found = {
        "median": statistics.median(calls),
        "worst": max(calls),
        "peak": done.peak_bytes / 2**30,
    }
    return found if scan is None else {**found, "scan": scan}


def _row(wide: _Width, narrow: _Width, size: Size) -> Row:
    pairs = list(zip(wide.measures, narrow.measures, strict=False))
    ratios = {}
    if wide.failure is None and narrow.failure is None:
        ratios = {
            name: statistics.median(ours[name] / theirs[name] for ours, theirs in pairs)
            for name in pairs[0][0]
        }
    ratio = max(ratios.values()) if ratios else None
    return Row(
        f"{wide.task}, {wide.columns:,} columns",
        _text(wide, ratios),
        f"{narrow.columns} columns: {_text(narrow, {})}",
        ratio,
        f"<= {TARGET}",
        None if size is not Size.FULL else ratio is not None and ratio <= TARGET,
        {"ratios": ratios, "wide": wide.measures, "narrow": narrow.measures},
    )


def _text(side: _Width, ratios: dict[str, float]) -> str:
    if side.failure is not None:
        return side.failure
    parts = []
    for name in side.measures[0]:
        value = statistics.median(each[name] for each in side.measures)
        unit = f"{value:.2f} GiB" if name == "peak" else f"{value:.3g} s"
        parts.append(f"{name} {unit}" + (f" ({ratios[name]:.2f}x)" if name in ratios else ""))
    return ", ".join(parts)
