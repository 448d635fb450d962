"""What barriers cost writers that go by the clock: one of all columns, and five of two columns each, in threads, append
for so many seconds with an interval of 1 s and of 10 s, without a changelog and with that of `lookup`, against the same
without barriers. In the end all say that they are done, and what is compacted behind commits is waited for, on both
sides. Rows a second of a whole round, the worst append, and how long the end took.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch
from benchmarks.streams.bench_barriers import COLUMNS, make_table, rows_of_append
from widetable.runtime.worker_thread import in_threads

# rows of an append, seconds of a round, intervals in seconds, rounds
SHAPES: Final = {
    Size.FULL: (10_000, 15, (1, 10), 3),
    Size.SHORT: (4_000, 4, (1, 10), 2),
    Size.TINY: (20, 0.1, (1,), 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    rows, seconds, intervals, rounds = SHAPES[size]
    found = []
    with scratch("barriers_by_clock") as work:
        for producer in ("none", "lookup"):
            for writers in (1, 5):
                for interval in intervals:
                    many = _Writers(work, rows, seconds, writers, interval, producer)
                    found.append(_measured(many, rounds))
    return [replace(row, ok=None) for row in found] if size is Size.TINY else found


class _Writers:
    """worst, ends: seconds of the longest append and of the end of each round, by whether there were barriers."""

    def __init__(
        self, work: Path, rows: int, seconds: float, writers: int, interval: int, producer: str
    ) -> None:
        self.work, self.rows, self.seconds, self.writers = work, rows, seconds, writers
        self.interval, self.producer = interval, producer
        share = COLUMNS // writers
        self.owned = [[f"c{i}" for i in range(at, at + share)] for at in range(0, COLUMNS, share)]
        self.worst: dict[bool, list[float]] = {True: [], False: []}
        self.ends: dict[bool, list[float]] = {True: [], False: []}
        self._runs = 0

    def seconds_of_a_row(self, barriers: bool) -> float:
        self._runs += 1
        name = f"bench.{self.producer}_{self.writers}_{self.interval}_{self._runs}"
        interval = f"{self.interval} s" if barriers else None
        table = make_table(
            self.work, name, False, interval=interval, changelog_producer=self.producer
        )
        began = time.perf_counter()

        def append(at: int) -> list[float]:
            writer = (
                wt.Catalog(self.work).writer(name, f"w{at}", self.owned[at]) if barriers else None
            )
            return self._append(table, at, writer, began + self.seconds)

        took = in_threads(append, range(self.writers), self.writers, "bench")
        table.wait_for_compactions()
        spent = time.perf_counter() - began
        self.worst[barriers].append(max(max(each) for each in took))
        self.ends[barriers].append(spent - self.seconds)
        wt.Catalog(self.work).drop_table(name)
        return spent / (sum(map(len, took)) * self.rows)

    def _append(
        self, table: wt.Table, at: int, writer: wt.BarrierWriter | None, until: float
    ) -> list[float]:
        """Seconds of each append."""
        took: list[float] = []
        while not took or time.perf_counter() < until:
            number = len(took)
            batch = rows_of_append(number, self.rows).select(["k", *self.owned[at]])
            began = time.perf_counter()
            if writer is None:
                table.write(batch, f"w{at}", number)
            else:
                writer.write(batch, number, complete=True)
            took.append(time.perf_counter() - began)
        if writer is not None:
            millis = self.interval * 1000
            writer.complete((int(time.time() * 1000) // millis + 2) * millis)
        return took


def _measured(many: _Writers, rounds: int) -> Row:
    for barriers in (True, False):
        many.seconds_of_a_row(barriers)
        many.worst[barriers].clear()
        many.ends[barriers].clear()
    ours, theirs, ratio, _ = paired(
        lambda: many.seconds_of_a_row(True), lambda: many.seconds_of_a_row(False), rounds
    )
    slowest = {side: float(np.median(found)) for side, found in many.worst.items()}
    ends = {side: float(np.median(found)) for side, found in many.ends.items()}
    return Row(
        f"{many.writers} writers by the clock, interval {many.interval} s, changelog {many.producer}, rows/s",
        f"{1 / ours / 1e6:.2f} M/s, worst append {slowest[True] * 1e3:.0f} ms, end {ends[True]:.1f} s",
        f"{1 / theirs / 1e6:.2f} M/s, worst {slowest[False] * 1e3:.0f} ms, end {ends[False]:.1f} s without",
        ratio,
        ">= 0.90x",
        ratio >= 0.9,
        {"worst": [slowest[True], slowest[False]], "end": [ends[True], ends[False]]},
    )
