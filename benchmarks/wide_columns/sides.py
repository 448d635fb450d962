"""Who runs a task of the workload `wide_columns` at one width: we or Paimon's Java, in a fresh process each time.

Both write the same rows. Java gets them in a file; what it wrote in its first round is compared with what we wrote:

    file, little endian = rows:i64 batch*    batch = key:i64[rows] c0:i64[rows] .. c9:i64[rows]
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import widetable as wt
from benchmarks.bounded_process import (
    Bounds,
    Exceeded,
    Finished,
    ProcessFailed,
    run_bounded,
    run_command_bounded,
)
from benchmarks.engine.wide_columns_process import BATCH_SEED, READS, WRITES, WRITTEN, Shape, batch
from benchmarks.harness import ROOT, linked_copy
from benchmarks.rival import NEWEST, RivalAbsent, java_command
from benchmarks.wide_columns.sizes import WideShape

JAVA: Final = f"Paimon Java {NEWEST}"
_PROCESS: Final = "benchmarks.engine.wide_columns_process"
SOURCE: Final = ROOT / "benchmarks" / "rival" / "WideColumns.java"
_HEAP: Final = "6g"
_OUT_OF_MEMORY: Final = 3  # the exit status of a JVM with ExitOnOutOfMemoryError

WideOutcome = Finished | Exceeded | str


@dataclass
class WideSide:
    """One task at one width, by one of both. once: runs it. outcomes: of each round so far; a text says why it was not
    run.
    """

    task: str
    columns: int
    once: Callable[[], WideOutcome]
    outcomes: list[WideOutcome] = field(default_factory=list)

    def run(self) -> None:
        """One more round, unless one failed already."""
        os.sync()  # what the run before left unwritten is not this one's to wait for
        self.outcomes.append(self.failure or self.once())

    @property
    def failure(self) -> str | None:
        """Why there are no numbers, or not of all rounds."""
        return next((str(each) for each in self.outcomes if not isinstance(each, Finished)), None)

    @property
    def measures(self) -> list[dict[str, float]]:
        """Of each round that was done."""
        return [_measures(each) for each in self.outcomes if isinstance(each, Finished)]

    def median(self, name: str) -> float:
        return statistics.median(each[name] for each in self.measures)


def _measures(done: Finished) -> dict[str, float]:
    calls, scan = done.printed["calls"], done.printed["scan"]
    found = {
        "median": statistics.median(calls),
        "worst": max(calls),
        "peak": done.peak_bytes / 2**30,
    }
    return found if scan is None else {**found, "scan": scan}


@dataclass(frozen=True)
class OurTasks:
    """Each run has a table of its own. The first table that a writing task fills is kept for the tasks that read."""

    shape: WideShape
    work: Path

    def side(self, task: str, columns: int) -> WideSide:
        return WideSide(task, columns, lambda: self._once(task, columns))

    def kept(self, task: str, columns: int) -> Path:
        """Where the table of a writing task is kept."""
        return self.work / "kept" / f"{task.replace(' ', '-')}-{columns}" / "bench.db" / "t"

    def _once(self, task: str, columns: int) -> WideOutcome:
        table = self.work / "pass" / "bench.db" / "t"
        if task in READS:
            source = self.kept(READS[task][0], columns)
            if not source.exists():
                return f"not done: without the table of {READS[task][0]}"
            linked_copy(source, table)
        shape = self.shape
        numbers = (columns, shape.rows, shape.keys, shape.calls_of(task))
        try:
            done = run_bounded(shape.bounds, _PROCESS, task, table, *numbers)
            kept = self.kept(task, columns)
            if task in WRITES and isinstance(done, Finished) and not kept.exists():
                linked_copy(table, kept)
        finally:
            shutil.rmtree(self.work / "pass", ignore_errors=True)
        return done


class JavaTasks:
    """Paimon's Java at its best settings, which rival/WideColumns.java tells."""

    def __init__(self, ours: OurTasks) -> None:
        self._ours, self._shape, self._work = ours, ours.shape, ours.work

    def side(self, task: str, columns: int) -> WideSide | None:
        """None for a task that Java does not do. A table that is too wide for it has a side that says so."""
        if task not in self._shape.java:
            return None
        side = WideSide(task, columns, lambda: self._once(task, columns))
        part = self._shape.java[task]
        if columns > part.columns:
            side.outcomes.append(part.refusal)
        elif self._absent is not None:
            side.outcomes.append(f"not measured: {self._absent}")
        return side

    def _once(self, task: str, columns: int) -> WideOutcome:
        table = self._work / "java" / "bench.db" / "t"
        try:
            done = run_java(
                self._command,
                self._shape.java_bounds,
                (task, table, columns, self._rows, self._shape.calls_of(task)),
            )
            kept = self._ours.kept(task, columns)
            if isinstance(done, Finished) and kept.exists():
                assert_same_rows(kept, table)
        finally:
            shutil.rmtree(self._work / "java", ignore_errors=True)
        return done

    @cached_property
    def _absent(self) -> str | None:
        """Why there is no Java."""
        try:
            assert self._command
        except RivalAbsent as why:
            return str(why)
        return None

    @cached_property
    def _command(self) -> list[str]:
        return java_command(NEWEST, [SOURCE], self._work)

    @cached_property
    def _rows(self) -> Path:
        shape = self._shape
        return save_batches(self._work / "batches", Shape(0, shape.rows, shape.keys, shape.calls))


def run_java(command: list[str], bounds: Bounds, arguments: tuple[object, ...]) -> WideOutcome:
    """WideColumns.java with these arguments. command: what starts its class."""
    options = [f"-Xmx{_HEAP}", "-XX:+ExitOnOutOfMemoryError"]
    try:
        return run_command_bounded(
            bounds, [*command, *options, SOURCE.stem, *map(str, arguments)], JAVA
        )
    except ProcessFailed as failed:
        if failed.status != _OUT_OF_MEMORY:
            raise
        return f"not done: it ran out of its heap of {_HEAP}"


def save_batches(path: Path, shape: Shape) -> Path:
    """Writes the file of the grammar above: the batches that our writing tasks make."""
    rng = np.random.default_rng(BATCH_SEED)
    with open(path, "wb") as file:
        np.array([shape.rows], "<i8").tofile(file)
        for _ in range(shape.calls):
            for column in batch(rng, shape).columns:
                column.to_numpy().astype("<i8").tofile(file)
    return path


def assert_same_rows(ours: Path, theirs: Path) -> None:
    """In the columns that were written, or the numbers compare nothing."""
    both = [_written_rows(path) for path in (ours, theirs)]
    if not both[0].equals(both[1]):
        raise AssertionError(f"{JAVA} has other rows than we have: {theirs} and {ours}")


def _written_rows(path: Path) -> pa.Table:
    columns = ["k", *(f"c{number}" for number in range(WRITTEN))]
    return wt.Table.open(str(path)).scan(columns=columns).to_arrow().sort_by("k").combine_chunks()
