"""`python -m benchmarks.soak [--minutes 60]`: five small commits a second beside a maintainer and a follower.

Each is a process of its own, on one table with a lookup changelog and a short retention. Once per period (a minute, or
a tenth of the run if that is shorter) a line is printed: CPU per write, memory of the three, files, snapshots, caches.
At the end each column has a line fitted through it, without the first fifth of the run: it is flat when what it grows
in the rest is at most a tenth of its median, or not more than its scatter explains. WIDETABLE_SOAK_MINUTES is the
default.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import widetable as wt
from benchmarks.harness import machine, scratch
from widetable_lookup import cache_statistics

WRITES_PER_SECOND = 5
KEYS, ROWS_PER_WRITE, COLUMNS = 20_000, 20, 8
OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "fields.s.sequence-group": ",".join(f"c{i}" for i in range(COLUMNS)),
    "snapshot.num-retained.min": "10",
    "snapshot.time-retained": "1 min",
}
PERIODS = 10  # in a short run
FLAT_GROWTH = 0.1
_PATIENCE_SECONDS = 120.0
_MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """One period. cpu_ms: of the writer's process per write. *_mib: anonymous memory of a process, but `caches_mib`."""

    minute: float
    writes: int
    cpu_ms: float
    writer_mib: float
    maintainer_cpu_s: float
    maintainer_mib: float
    follower_mib: float
    rows_followed: int
    files: int
    snapshots: int
    caches: int
    caches_mib: float


@dataclass(frozen=True)
class Trend:
    """growth: what the fitted line adds over its span, as a share of the median; is_flat: see the module."""

    column: str
    median: float
    growth: float
    per_hour: float
    is_flat: bool


def trend(column: str, minutes: Sequence[float], values: Sequence[float]) -> Trend:
    """The line through the values. Fewer than three give a flat one."""
    x, y = np.asarray(minutes, float), np.asarray(values, float)
    median = float(np.median(y)) if len(y) else 0.0
    if len(x) < 3 or np.ptp(x) == 0:
        return Trend(column, median, 0.0, 0.0, True)
    slope, start = np.polyfit(x, y, 1)
    scatter = float(np.sqrt(np.sum((y - slope * x - start) ** 2) / (len(x) - 2)))
    error = scatter / float(np.sqrt(np.sum((x - x.mean()) ** 2)))
    growth = float(slope * np.ptp(x)) / max(abs(median), 1e-9)
    is_flat = growth <= FLAT_GROWTH or slope <= 2 * error
    return Trend(column, median, growth, float(slope) * 60, bool(is_flat))


@dataclass
class Shared:
    """What the processes and their parent share: two counters, and when to end."""

    writes: Any
    followed: Any
    stop: Event

    @classmethod
    def new(cls, context: SpawnContext) -> Shared:
        return cls(context.Value("q", 0), context.Value("q", 0), context.Event())


def write(path: str, shared: Shared) -> None:
    """Small commits at an even pace; what is late is not made up for."""
    table, rng, number = wt.Table.open(path), np.random.default_rng(7), 0
    due = time.monotonic()
    while not shared.stop.wait(max(0.0, due - time.monotonic())):
        due = max(due + 1 / WRITES_PER_SECOND, time.monotonic())
        table.write(batch(rng, number), "soak", number)
        number += 1
        shared.writes.value = number


def batch(rng: np.random.Generator, number: int, rows: int = ROWS_PER_WRITE) -> pa.Table:
    keys = rng.choice(KEYS, rows, replace=False)
    columns: dict[str, Any] = {"k": keys, "s": np.full(len(keys), number)}
    columns |= {f"c{i}": [f"{number}-{i}-{key}" for key in keys] for i in range(COLUMNS)}
    return pa.table(columns, SCHEMA)


SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.int64())]
    + [pa.field(f"c{i}", pa.string()) for i in range(COLUMNS)]
)


def maintain(path: str, shared: Shared) -> None:
    """Compacts what writers leave, and lets old snapshots go."""
    stop = threading.Event()

    def pass_on() -> None:
        shared.stop.wait()
        stop.set()

    threading.Thread(target=pass_on, daemon=True).start()
    wt.Table.open(path).maintain(stop=stop)


def follow(path: str, shared: Shared) -> None:
    """Reads the changelog as it comes, under a consumer's name."""
    table = wt.Table.open(path)
    while not shared.stop.is_set():
        for rows in table.follow("soak", scan_mode="latest", timeout=1):
            shared.followed.value += rows.num_rows


ROLES: dict[str, Callable[[str, Shared], None]] = {
    "writer": write,
    "maintainer": maintain,
    "follower": follow,
}


@dataclass(frozen=True)
class Usage:
    """Of a process so far."""

    cpu_seconds: float
    anonymous_bytes: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        kib = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
        ticks = int(stat[11]) + int(stat[12])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), kib * 1024)


class Soak:
    """The three processes on one table. Raises RuntimeError when one of them ends before the time."""

    def __init__(self, table: wt.Table) -> None:
        context = multiprocessing.get_context("spawn")
        self._table = table
        self._shared = Shared.new(context)
        self._processes: dict[str, SpawnProcess] = {
            name: context.Process(target=role, args=(table.path, self._shared), name=name)
            for name, role in ROLES.items()
        }

    def run(self, minutes: float, on_sample: Callable[[Sample], None]) -> list[Sample]:
        """Samples of all periods; what the processes take to start does not count."""
        for process in self._processes.values():
            process.start()
        try:
            self._wait_for_the_first_write()
            samples: list[Sample] = []
            period = min(60.0, minutes * 60 / PERIODS)
            began, before = time.monotonic(), self._seen()
            for number in range(1, round(minutes * 60 / period) + 1):
                time.sleep(max(0.0, began + number * period - time.monotonic()))
                self._check()
                now = self._seen()
                samples.append(self._sample((time.monotonic() - began) / 60, before, now))
                on_sample(samples[-1])
                before = now
        finally:
            self._end()
        return samples

    def _wait_for_the_first_write(self) -> None:
        patience = time.monotonic() + _PATIENCE_SECONDS
        while not self._shared.writes.value:
            self._check()
            if time.monotonic() > patience:
                raise RuntimeError("the writer has not come to its first write")
            time.sleep(0.05)

    def _check(self) -> None:
        for name, process in self._processes.items():
            if process.exitcode is not None:
                raise RuntimeError(f"{name} ended with {process.exitcode}")

    def _end(self) -> None:
        self._shared.stop.set()
        for process in self._processes.values():
            process.join(_PATIENCE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()

    def _seen(self) -> tuple[int, dict[str, Usage]]:
        pids = {name: process.pid or 0 for name, process in self._processes.items()}
        return self._shared.writes.value, {name: Usage.of(pid) for name, pid in pids.items()}

    def _sample(
        self,
        minute: float,
        before: tuple[int, dict[str, Usage]],
        now: tuple[int, dict[str, Usage]],
    ) -> Sample:
        (writes_before, used_before), (writes, used) = before, now
        spent = {name: used[name].cpu_seconds - used_before[name].cpu_seconds for name in used}
        mib = {name: used[name].anonymous_bytes / _MIB for name in used}
        root = Path(self._table.path)
        caches = cache_statistics(self._table.path)
        return Sample(
            minute,
            writes,
            spent["writer"] * 1000 / max(1, writes - writes_before),
            mib["writer"],
            spent["maintainer"],
            mib["maintainer"],
            mib["follower"],
            self._shared.followed.value,
            sum(len(names) for _, _, names in os.walk(root)),
            sum(1 for _ in (root / "snapshot").glob("snapshot-*")),
            caches.caches,
            caches.disk_bytes / _MIB,
        )


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Of every column that should be flat, behind the first fifth."""
    counted = samples[len(samples) // 5 :]
    minutes = [sample.minute for sample in counted]
    names = [
        each.name
        for each in fields(Sample)
        if each.name not in ("minute", "writes", "rows_followed")
    ]
    return [trend(name, minutes, [getattr(each, name) for each in counted]) for name in names]


def soak(minutes: float, on_sample: Callable[[Sample], None]) -> list[Sample]:
    """A run on a table that has all keys: what grows then, grows with time."""
    with scratch("soak") as work:
        table = wt.Catalog(str(work / "warehouse")).create_table(
            "bench.soak", SCHEMA, primary_key=["k"], options=OPTIONS
        )
        table.write(batch(np.random.default_rng(0), 0, KEYS))
        table.compact(full=True)
        return Soak(table).run(minutes, on_sample)


def _line(cells: Sequence[object]) -> str:
    texts = [f"{cell:.2f}" if isinstance(cell, float) else f"{cell}" for cell in cells]
    return "".join(
        text.rjust(len(each.name) + 2) for text, each in zip(texts, fields(Sample), strict=True)
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.soak")
    default = float(os.environ.get("WIDETABLE_SOAK_MINUTES", "60"))
    parser.add_argument("--minutes", type=float, default=default)
    minutes = parser.parse_args(arguments).minutes
    print(f"soak: {minutes:g} minutes, machine: {machine()}")
    print(_line([each.name for each in fields(Sample)]), flush=True)
    samples = soak(minutes, lambda sample: print(_line(astuple(sample)), flush=True))
    found = trends(samples)
    for each in found:
        verdict = "flat" if each.is_flat else "RISES"
        print(
            f"{each.column:>18}: median {each.median:.2f}, {each.growth:+.0%} over the run, "
            f"{each.per_hour:+.2f} an hour: {verdict}"
        )
    rising = [each.column for each in found if not each.is_flat]
    print(
        f"soak: {samples[-1].writes} writes in {samples[-1].minute:.1f} minutes, "
        f"rising: {', '.join(rising) or 'nothing'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
