"""kill -9 of writers, of a maintainer, of a reader of the changelog and of real Spark queries, at random moments and at
named points; then every cell, the whole changelog and the reader's totals are audited.

WIDETABLE_KILLS: kills of plain processes (default 48); WIDETABLE_SPARK_KILLS: kills of a Spark query (default 2).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.kill.compactor import MAINTAINER_POINTS
from tests.kill.killing_file_io import POINTS
from tests.kill.processes import start
from tests.kill.reader import READER_POINTS
from tests.kill.workload import (
    batch,
    expected_rows,
    signed_totals,
    table_options,
    table_schema,
    totals_rows,
    totals_schema,
)

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KILLS = int(os.environ.get("WIDETABLE_KILLS", "48"))
SPARK_KILLS = int(os.environ.get("WIDETABLE_SPARK_KILLS", "2"))
PLAIN_WRITERS, BATCHES, SPARK_BATCHES = 3, 40, SPARK_KILLS + 2
DEADLINE_SECONDS = 600 + 10 * (KILLS + SPARK_KILLS)
# Which points a process may be killed at, by the first word of its name: first those that only it comes to.
POINTS_OF = {
    "writer": ((), POINTS),
    "maintainer": (MAINTAINER_POINTS, POINTS),
    "reader": (READER_POINTS, POINTS),
}
# A point that nobody died at is reached within so many calls, while there is work that leads there.
FIRST_CALLS, CALLS = 2, 6


@dataclass
class Campaign:
    """Starts the processes again whenever one dies, until each writer has sent all batches."""

    rng: random.Random
    table: wt.Table
    totals: wt.Table
    work: Path
    seed: int
    processes: dict[str, BaseProcess | subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    points: dict[str, str] = field(default_factory=dict)

    def start(self, name: str) -> None:
        plain_kills = sum(n for point, n in self.kills.items() if not point.startswith("spark"))
        role = name.partition("-")[0]
        point, calls = self._next_point(role) if plain_kills < KILLS else ("none", CALLS)
        self.points[name] = point
        named = "none" if point == "random" else point
        call = str(self.rng.randrange(calls))
        stop = str(self.work / ("stop-reading" if role == "reader" else "stop"))
        if role == "writer":
            log = str(self.work / f"{name}.log")
            writer = name.rpartition("-")[2]
            what = [self.table.path, log, str(self.seed), writer, str(BATCHES)]
        elif role == "reader":
            what = [self.table.path, self.totals.path, stop]
        else:
            what = [self.table.path, stop]
        script = {"maintainer": "compactor"}.get(role, role)
        caches = {"WIDETABLE_CACHE_DIR": str(self.work / "caches")}
        self.processes[name] = start(script, [*what, named, call], self.work / "out.txt", caches)

    def _next_point(self, role: str) -> tuple[str, int]:
        """A point, and at which of how many calls. Points that nobody died at come first."""
        own, shared = POINTS_OF[role]
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

    def watch(self) -> None:
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
                [sys.executable, str(HERE / "spark_writer.py"), *arguments],
                stdout=out,
                stderr=out,
                env={
                    **os.environ,
                    "PYTHONPATH": paths,
                    "WIDETABLE_SPARK_KILLS": str(SPARK_KILLS),
                    "WIDETABLE_CACHE_DIR": str(self.work / "caches"),
                },
            )


def exit_code(process: BaseProcess | subprocess.Popen[bytes]) -> int | None:
    return process.exitcode if isinstance(process, BaseProcess) else process.poll()


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)  # Spark starts often, where others use the cores
def test_no_cell_is_lost_or_doubled_by_kills(
    rng: random.Random, java_home: str, tmp_path: Path
) -> None:
    assert java_home
    seed = rng.randrange(2**32)
    catalog = wt.Catalog(str(tmp_path / "wh"))
    table = catalog.create_table("db.t", table_schema(), primary_key=["k"], options=table_options())
    totals = catalog.create_table("db.totals", totals_schema(), primary_key=["bucket"])
    (tmp_path / "source").mkdir()
    for number in range(SPARK_BATCHES):
        pq.write_table(batch(seed, 3, number), tmp_path / "source" / f"{number:04d}.parquet")
        os.utime(tmp_path / "source" / f"{number:04d}.parquet", (number + 1, number + 1))
    campaign = Campaign(rng, table, totals, tmp_path, seed)
    campaign.start_spark()
    for name in ("writer-0", "writer-1", "writer-2", "maintainer-0", "maintainer-1", "reader"):
        campaign.start(name)
    _run(campaign, tmp_path / "stop", tmp_path / "stop-reading")
    _audit(table, seed)
    _audit_changelog(table, totals)
    assert campaign.kills["spark"] == SPARK_KILLS
    assert sum(campaign.kills.values()) - SPARK_KILLS >= KILLS
    named = {*POINTS, *MAINTAINER_POINTS, *READER_POINTS}
    assert {point for point in named if campaign.kills[point]} == named


def _run(campaign: Campaign, stop: Path, stop_reading: Path) -> None:
    """Until all writers are done and enough kills have happened: writers that are done are replaced by kills of the
    maintainers and the reader. The maintainers stop when nothing is left to do, then the reader.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        while True:
            campaign.watch()
            plain_kills = sum(n for point, n in campaign.kills.items() if point != "spark")
            writers = [name for name in campaign.processes if name.startswith(("writer", "spark"))]
            if not writers and plain_kills >= KILLS:
                stop.touch()
            if stop.exists() and set(campaign.processes) <= {"reader"}:
                stop_reading.touch()
            if not campaign.processes:
                return
            assert time.monotonic() < deadline, (
                f"not done in time: {campaign.kills}, {list(campaign.processes)}"
            )
            time.sleep(0.02)
    finally:
        for process in campaign.processes.values():
            process.kill()
            process.join() if isinstance(process, BaseProcess) else process.wait()


def _audit(table: wt.Table, seed: int) -> None:
    appends = [s for s in table.snapshots() if s.commit_kind == "APPEND"]
    committed = Counter((s.commit_user, s.commit_identifier) for s in appends)
    assert committed == Counter(
        [(f"writer-{w}", n) for w in range(PLAIN_WRITERS) for n in range(BATCHES)]
        + [("writer-3", n) for n in range(SPARK_BATCHES)]
    )
    expected = expected_rows(
        seed, dict.fromkeys(range(PLAIN_WRITERS), BATCHES) | {3: SPARK_BATCHES}
    )
    for _ in range(2):
        rows = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
        wrong = [k for k in expected.keys() | rows.keys() if rows.get(k) != expected.get(k)]
        assert not wrong, (
            f"seed {seed}, first wrong key {wrong[0]}: {rows.get(wrong[0])} is not {expected.get(wrong[0])}"
        )
        table.compact(full=True)


def _audit_changelog(table: wt.Table, totals: wt.Table) -> None:
    """The changelog folds to the table at every snapshot, and the reader that was killed has the table's totals."""
    report = table.audit(start=0)
    assert report.ok, "\n".join(str(finding) for finding in report.findings)
    committed = totals.scan().to_arrow().sort_by("bucket")
    rows = table.scan().to_arrow().to_pylist()
    assert committed.equals(totals_rows(signed_totals(rows)))
