"""Processes of a kill test, started again whenever one dies, until all writers have sent what they have and enough have
been killed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import widetable as wt
from tests.kill.processes import start

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# A point that nobody died at is reached within so many calls, while there is work that leads there.
FIRST_CALLS, CALLS = 2, 6


@dataclass
class Campaign:
    """points_of: which points a process may be killed at, by the first word of its name: first those that only it comes
    to. kills_wanted: of plain processes; spark_kills: of a Spark query, once at each of its batches from the first on.
    """

    rng: random.Random
    table: wt.Table
    totals: wt.Table
    work: Path
    seed: int
    points_of: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    kills_wanted: int
    batches: int
    spark_kills: int = 0
    processes: dict[str, BaseProcess | subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    points: dict[str, str] = field(default_factory=dict)

    @property
    def plain_kills(self) -> int:
        return self.kills.total() - self.kills["spark"]

    def start(self, name: str) -> None:
        role = name.partition("-")[0]
        is_over = self.plain_kills >= self.kills_wanted
        point, calls = ("none", CALLS) if is_over else self._next_point(role)
        self.points[name] = point
        named = "none" if point == "random" else point
        call = str(self.rng.randrange(calls))
        stop = str(self.work / ("stop-reading" if role == "reader" else "stop"))
        if role == "writer":
            log = str(self.work / f"{name}.log")
            writer = name.rpartition("-")[2]
            what = [self.table.path, log, str(self.seed), writer, str(self.batches)]
        elif role == "reader":
            what = [self.table.path, self.totals.path, stop]
        else:
            what = [self.table.path, stop]
        script = {"maintainer": "compactor"}.get(role, role)
        caches = {"WIDETABLE_CACHE_DIR": str(self.work / "caches")}
        self.processes[name] = start(script, [*what, named, call], self.work / "out.txt", caches)

    def _next_point(self, role: str) -> tuple[str, int]:
        """A point, and at which of how many calls. Points that nobody died at come first."""
        own, shared = self.points_of[role]
        for points in (own, shared):
            left = [point for point in points if not self.kills[point]]
            if left:
                return self.rng.choice(left), FIRST_CALLS
        return self.rng.choice([*own, *shared, "random"]), CALLS

    def start_spark(self) -> None:
        marks = self.work / "marks"
        marks.mkdir(exist_ok=True)
        arguments = [
            self.table.path,
            str(self.work / "source"),
            str(self.work / "checkpoint"),
            str(marks),
        ]
        self.processes["spark"] = self._spawn_spark(arguments)

    def run(self, deadline_seconds: float) -> None:
        """Until all writers are done and enough kills have happened: writers that are done are replaced by kills of the
        others. The maintainers stop when nothing is left to do, then the reader.
        """
        stop, stop_reading = self.work / "stop", self.work / "stop-reading"
        deadline = time.monotonic() + deadline_seconds
        try:
            while True:
                self._watch()
                writers = [name for name in self.processes if name.startswith(("writer", "spark"))]
                if not writers and self.plain_kills >= self.kills_wanted:
                    stop.touch()
                if stop.exists() and set(self.processes) <= {"reader"}:
                    stop_reading.touch()
                if not self.processes:
                    return
                assert time.monotonic() < deadline, (
                    f"not done in time: {self.kills}, {list(self.processes)}"
                )
                time.sleep(0.02)
        finally:
            for process in self.processes.values():
                process.kill()
                process.join() if isinstance(process, BaseProcess) else process.wait()

    def _watch(self) -> None:
        """One look at every process: count deaths and start again; now and then kill one that waits
        for a random kill.
        """
        for name, process in list(self.processes.items()):
            code = exit_code(process)
            if code is None:
                if self.points.get(name) == "random" and self.rng.random() < 0.03:
                    process.kill()
                continue
            if code == 0:
                del self.processes[name]
            elif code == -9:
                self.kills["spark" if name == "spark" else self.points[name]] += 1
                self.start_spark() if name == "spark" else self.start(name)
            else:
                raise AssertionError(
                    f"{name} ended with {code}:\n{(self.work / 'out.txt').read_text()[-4000:]}"
                )

    def _spawn_spark(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "lookup"), str(ROOT / "spark")])
        with open(self.work / "out.txt", "ab") as out:
            return subprocess.Popen(
                [sys.executable, str(HERE / "programs/spark_writer.py"), *arguments],
                stdout=out,
                stderr=out,
                env={
                    **os.environ,
                    "PYTHONPATH": paths,
                    "WIDETABLE_SPARK_KILLS": str(self.spark_kills),
                    "WIDETABLE_CACHE_DIR": str(self.work / "caches"),
                },
            )


def exit_code(process: BaseProcess | subprocess.Popen[bytes]) -> int | None:
    return process.exitcode if isinstance(process, BaseProcess) else process.poll()
