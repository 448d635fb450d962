"""kill -9 of writers, of a compactor and of real Spark queries, at random moments and at named
points; then every cell is audited.

WIDETABLE_KILLS: kills of plain processes (default 26); WIDETABLE_SPARK_KILLS: kills of a Spark query (default 6).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.kill.killing_file_io import POINTS
from tests.kill.workload import batch, expected_rows, table_options, table_schema

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KILLS = int(os.environ.get("WIDETABLE_KILLS", "26"))
SPARK_KILLS = int(os.environ.get("WIDETABLE_SPARK_KILLS", "6"))
PLAIN_WRITERS, BATCHES, SPARK_BATCHES, DEADLINE_SECONDS = 3, 40, SPARK_KILLS + 2, 420


@dataclass
class Campaign:
    """Starts the processes again whenever one dies, until each writer has sent all batches."""

    rng: random.Random
    table: wt.Table
    work: Path
    seed: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    points: dict[str, str] = field(default_factory=dict)

    def start(self, name: str) -> None:
        plain_kills = sum(n for point, n in self.kills.items() if not point.startswith("spark"))
        point = self.rng.choice((*POINTS, "random")) if plain_kills < KILLS else "none"
        self.points[name] = point
        named = point if point in POINTS else "none"
        call = str(self.rng.randrange(6))
        script = "compactor.py" if name == "compactor" else "writer.py"
        arguments = [self.table.path, str(self.work / "stop"), named, call]
        if name != "compactor":
            writer = name.rpartition("-")[2]
            arguments = [
                self.table.path,
                str(self.work / f"{name}.log"),
                str(self.seed),
                writer,
                str(BATCHES),
                named,
                call,
            ]
        self.processes[name] = self._spawn(HERE / script, arguments)

    def start_spark(self) -> None:
        marks = self.work / "marks"
        marks.mkdir(exist_ok=True)
        arguments = [
            self.table.path,
            str(self.work / "source"),
            str(self.work / "checkpoint"),
            str(marks),
        ]
        self.processes["spark"] = self._spawn(HERE / "spark_writer.py", arguments)

    def watch(self) -> None:
        """One look at every process: count deaths and start again; now and then kill one that waits
        for a random kill.
        """
        for name, process in list(self.processes.items()):
            code = process.poll()
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

    def _spawn(self, script: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "lookup"), str(ROOT / "spark")])
        with open(self.work / "out.txt", "ab") as out:
            return subprocess.Popen(
                [sys.executable, str(script), *arguments],
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONPATH": paths, "WIDETABLE_SPARK_KILLS": str(SPARK_KILLS)},
            )


@pytest.mark.slow
def test_no_cell_is_lost_or_doubled_by_kills(
    rng: random.Random, java_home: str, tmp_path: Path
) -> None:
    assert java_home
    seed = rng.randrange(2**32)
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t", table_schema(), primary_key=["k"], options=table_options()
    )
    (tmp_path / "source").mkdir()
    for number in range(SPARK_BATCHES):
        pq.write_table(batch(seed, 3, number), tmp_path / "source" / f"{number:04d}.parquet")
        os.utime(tmp_path / "source" / f"{number:04d}.parquet", (number + 1, number + 1))
    campaign = Campaign(rng, table, tmp_path, seed)
    campaign.start_spark()
    for name in ("writer-0", "writer-1", "writer-2", "compactor"):
        campaign.start(name)
    _run(campaign, tmp_path / "stop")
    _audit(table, seed)
    assert campaign.kills["spark"] == SPARK_KILLS
    assert sum(campaign.kills.values()) - SPARK_KILLS >= KILLS
    assert {p for p in POINTS if campaign.kills[p]} == set(POINTS)


def _run(campaign: Campaign, stop: Path) -> None:
    """Until all writers are done and enough kills have happened: writers that are done are replaced
    by compactor kills.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        while True:
            campaign.watch()
            plain_kills = sum(n for point, n in campaign.kills.items() if point != "spark")
            writers = [name for name in campaign.processes if name != "compactor"]
            if not writers and plain_kills >= KILLS:
                stop.touch()
            if not campaign.processes:
                return
            assert time.monotonic() < deadline, (
                f"not done in time: {campaign.kills}, {list(campaign.processes)}"
            )
            time.sleep(0.02)
    finally:
        for process in campaign.processes.values():
            process.kill()


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
