"""Writers that compact, and processes that expire and clean and are killed, all at once on one table.

In the end every cell is audited, every tag holds what it held, and nothing is left that nobody names.
"""

from __future__ import annotations

import os
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.processes import start
from tests.kill.workload import batch, expected_rows, table_options, table_schema
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.models.kept_rows import age, leftovers, rows
from tests.support.programs.tallies import Note

WRITERS, BATCHES, EXPIRERS, KILLS, TAGS = 2, 12, 2, 4, 8
OPTIONS = {
    "write-only": "false",
    "changelog-producer": "none",
    "num-sorted-run.compaction-trigger": "3",
    "widetable.fsync": "false",
}


class Processes:
    """By name; an expirer that died by its own hand is started again."""

    def __init__(self, table: wt.Table, work: Path, seed: int, rng: random.Random) -> None:
        self._table, self._work, self._seed, self._rng = table, work, seed, rng
        self._running: dict[str, BaseProcess] = {}
        self.stop = work / "stop"
        self.kills = 0

    def start(self, name: str) -> None:
        role, _, number = name.partition("-")
        if role == "writer":
            log = str(self._work / f"{name}.log")
            what = [log, str(self._seed), number, str(BATCHES), "none", "0"]
        else:
            call = self._rng.randrange(60) if self.kills < KILLS else -1
            what = [str(self.stop), str(call)]
        self._running[name] = start(role, [self._table.path, *what], self._work / "out.txt")

    def watch(self) -> bool:
        """Whether any is left."""
        for name, process in list(self._running.items()):
            code = process.exitcode
            if code is None:
                continue
            del self._running[name]
            if code == -9:
                self.kills += 1
                self.start(name)
            else:
                assert code == 0, str(self)
        if not any(name.startswith("writer") for name in self._running):
            if self.kills >= KILLS:
                self.stop.touch()
            else:  # there may be less left to delete than it takes to die by its own hand
                self._rng.choice(list(self._running.values())).kill()
        return bool(self._running)

    def __str__(self) -> str:
        out = (self._work / "out.txt").read_text()[-4000:]
        return f"{self.kills} kills, running: {list(self._running)}, said: {out}"

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.join()


def look(table: wt.Table) -> None:
    """Read the newest snapshot; when it expires under this reader, that is what it must be shown."""
    try:
        rows(table)
    except wt.NotFoundError as error:
        if "expired" not in str(error):
            raise


@pytest.mark.slow
def test_no_cell_and_no_tag_is_lost_and_no_file_is_left(
    rng: random.Random, tmp_path: Path, tally: Note
) -> None:
    seed = rng.randrange(2**32)
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t", table_schema(), primary_key=["k"], options=table_options() | OPTIONS
    )
    orphans = [f"{table.path}/bucket-0/data-{n}.parquet" for n in range(20)]
    os.makedirs(f"{table.path}/bucket-0")
    for path in orphans:
        Path(path).touch()
    age(table, 3600)
    processes = Processes(table, tmp_path, seed, rng)
    for n in range(WRITERS):
        processes.start(f"writer-{n}")
    for n in range(EXPIRERS):
        processes.start(f"expirer-{n}")
    tags: dict[str, list[str]] = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while processes.watch():
            assert time.monotonic() < deadline, f"not done in time: {processes}"
            if table.snapshots() and len(tags) < TAGS:
                name = f"tag-{len(tags)}"
                table.create_tag(name)
                tags[name] = rows(table, tag=name)
            look(table)
            time.sleep(0.3)
    finally:
        processes.kill()
    tally(kills=processes.kills)
    assert processes.kills >= KILLS
    assert not any(Path(path).exists() for path in orphans)
    _audit(table, seed, tags)


def _audit(table: wt.Table, seed: int, tags: dict[str, list[str]]) -> None:
    expected = expected_rows(seed, dict.fromkeys(range(WRITERS), BATCHES))
    found = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
    assert found == expected, f"seed {seed}"
    for writer in range(WRITERS):
        for number in range(BATCHES):
            rows_again = batch(seed, writer, number)
            again = table.write(rows_again, f"writer-{writer}", number, replay=True)
            assert not again.committed
    assert len(tags) > 1
    for name, remembered in tags.items():
        assert rows(table, tag=name) == remembered, name
        table.delete_tag(name)
    table.compact(full=True)
    table.expire_snapshots(num_retained_min=1, time_retained_millis=0, limit=1000)
    table.remove_orphan_files(older_than_millis=0)
    assert leftovers(table) == set()
    assert len(list(Path(table.path).rglob("*.parquet"))) <= 2
    assert {row["k"]: row for row in table.scan().to_arrow().to_pylist()} == expected
