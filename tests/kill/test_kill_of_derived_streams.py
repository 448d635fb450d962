"""kill -9 of a job of Spark that keeps two tables of two others, at its publishes, while its sources are written,
compacted and expired: at every barrier that can be read the tables are what their sources were, every batch is in once.

WIDETABLE_SPARK_KILLS: kills (default 1).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.kill.programs.derived_stream import COUNTS, GROUPS, SUMS
from tests.support.faults.background import going_on
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from tests.support.tables.derived_job import source_table

ROOT = Path(__file__).resolve().parent.parent.parent
KILLS = int(os.environ.get("WIDETABLE_SPARK_KILLS", "1"))
DEADLINE_SECONDS = PATIENCE_SECONDS * (KILLS + 1)


class Sources:
    """x: rows of v that come, change and go; y: rows that come. States: of each as of each barrier."""

    def __init__(self, warehouse: Path, rng: random.Random) -> None:
        self.catalog, self.rng = wt.Catalog(warehouse), rng
        source_table(warehouse, "x", changelog_producer="lookup")
        source_table(warehouse, "y", changelog_producer="none")
        self.writers = [self.catalog.writer(f"d.{name}", "w") for name in "xy"]
        self.states: dict[int, tuple[dict[int, int], int]] = {0: ({}, 0)}

    def step(self) -> int:
        """One barrier more."""
        last = max(self.states)
        x, count = dict(self.states[last][0]), self.states[last][1]
        barrier = last + 10
        ids = self.rng.sample(range(20), self.rng.randrange(4))
        kinds = ["-D" if self.rng.random() < 0.3 else "+U" for _ in ids]
        values = [self.rng.randrange(100) for _ in ids]
        for id, value, kind in zip(ids, values, kinds, strict=True):
            x.pop(id, None) if kind == "-D" else x.update({id: value})
        more = self.rng.randrange(3)
        both: tuple[dict[str, list[Any]], ...] = (
            {"id": ids, "v": values, "_row_kind": kinds},
            {"id": [*range(count, count + more)], "v": [0] * more},
        )
        for writer, rows in zip(self.writers, both, strict=True):
            if len(rows["id"]):
                writer.write(rows, barrier=barrier, complete=True)
            else:
                writer.complete(barrier)
        self.states[barrier] = x, count + more
        return barrier

    def go_on(self) -> None:
        """A barrier more; one of the tables is compacted, and lets snapshots go."""
        self.step()
        table = self.catalog.table(self.rng.choice(("d.x", "d.y", SUMS, COUNTS)))
        table.compact(full=self.rng.random() < 0.3)
        table.expire_snapshots(1, 1, 0)

    def expected(self, barrier: int) -> tuple[dict[int, int], dict[int, int]]:
        """Sums and counts by group; a group that never was is not there."""
        x, count = self.states[barrier]
        sums, counts = dict.fromkeys(range(GROUPS), 0), dict.fromkeys(range(GROUPS), 0)
        for id, value in x.items():
            sums[id % GROUPS] += value
        for id in range(count):
            counts[id % GROUPS] += 1
        return sums, counts


def check(sources: Sources) -> int:
    """A session over all four sees one moment; which."""
    with sources.catalog.session(tables=["d.x", "d.y", SUMS, COUNTS]) as session:
        barrier = session.barrier
        assert barrier is not None
        found = [
            {row["id"]: row[value] for row in session.table(name).scan().to_arrow().to_pylist()}
            for name, value in ((SUMS, "s"), (COUNTS, "n"))
        ]
        for have, wanted in zip(found, sources.expected(barrier), strict=True):
            assert {group: have.get(group, 0) for group in range(GROUPS)} == wanted, barrier
        assert session.table("d.y").scan().count() == sources.states[barrier][1]
        return barrier


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)
def test_a_derived_job_that_is_killed_loses_and_doubles_nothing(
    rng: random.Random, java_home: str, tmp_path: Path, tally: Note
) -> None:
    assert java_home
    sources = Sources(tmp_path, rng)
    for name, value in ((SUMS, "s"), (COUNTS, "n")):
        sources.catalog.create_table(
            name,
            {"id": "BIGINT", value: "BIGINT"},
            primary_key=["id"],
            options={
                "bucket": "1",
                "widetable.barrier-interval": "10 ms",
                "widetable.fsync": "false",
            },
        )
    sources.step()
    seen = reads = 0
    for kill in range(KILLS + 1):
        end = tmp_path / "end"
        # At first among those of the first batch.
        publish = rng.randrange(1, 14 if kill else 5) if kill < KILLS else 0
        places = [tmp_path, tmp_path / "checkpoint", end]
        with (tmp_path / "err").open("w") as err:
            program = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.kill.programs.derived_stream"),
                    *(*map(str, places), str(publish), rng.choice(("before", "after"))),
                ],
                cwd=ROOT,
                start_new_session=True,
                stderr=err,
            )
        with going_on(sources.go_on, 0.2):
            while program.poll() is None:
                time.sleep(0.2)  # the program is to have the machine
                try:
                    barrier = check(sources)
                except wt.NotFoundError:
                    assert not seen
                    continue
                assert barrier >= seen
                seen, reads = barrier, reads + 1
                if not publish and not end.exists():
                    end.write_text(str(max(sources.states)))
        assert program.returncode == (-9 if publish else 0), (tmp_path / "err").read_text()
    last = int((tmp_path / "end").read_text())
    assert check(sources) >= last
    for name in ("d.x", "d.y", SUMS, COUNTS):
        table = sources.catalog.table(name)
        assert not table.audit().findings
    tally(kills=KILLS, reads=reads)
