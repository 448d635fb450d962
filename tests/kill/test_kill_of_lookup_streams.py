"""kill -9 of workers and of whole Spark queries whose rows are joined with two tables that are written meanwhile, and
wait for a match in one of them: each batch that the sink got again is the same again, is what the snapshots say that it
was joined with, and each row came out once.

WIDETABLE_SPARK_KILLS: kills of a whole query (default 1); at each point somebody dies.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import widetable as wt
from tests.kill.programs.lookup_stream import POINTS, RETRY_BATCHES, SINK
from tests.spark.joining.joined_query import drop
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note

ROOT = Path(__file__).resolve().parent.parent.parent
QUERY_KILLS = int(os.environ.get("WIDETABLE_SPARK_KILLS", "1"))
BATCHES, ROWS, KEYS = QUERY_KILLS + 3, 6, 16
OPTIONS = {"widetable.fsync": "false"}
DEADLINE_SECONDS = PATIENCE_SECONDS * (QUERY_KILLS + 1)


class Got(NamedTuple):
    batch_id: int
    snapshots: tuple[int, int]
    rows: list[tuple[Any, ...]]


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 300)
def test_streams_that_are_killed_join_what_they_joined_before(
    rng: random.Random, java_home: str, tmp_path: Path, tally: Note
) -> None:
    assert java_home
    catalog = wt.Catalog(str(tmp_path / "wh"))
    now, slow = (
        catalog.create_table(
            name, {"k": pa.int64(), of: pa.string()}, primary_key=["k"], options=OPTIONS
        )
        for name, of in (("db.now", "city"), ("db.slow", "name"))
    )
    # One of each batch finds nothing, and waits: so each publishes a snapshot of those that do.
    left = [[(b * ROWS + n, key(rng) if n else KEYS) for n in range(ROWS)] for b in range(BATCHES)]
    for number, rows in enumerate(left):
        drop(tmp_path / "source", number, *rows)
    planned = plan_kills(rng, tmp_path / "kills")
    pending = tmp_path / "wh/db.db/pending"
    names = [now.path, slow.path, pending, tmp_path / "source", tmp_path / "checkpoint"]
    with writing(rng, now, slow):
        killed = run_to_its_end([*map(str, names), str(tmp_path / "out"), str(tmp_path / "kills")])
    left_over = sorted(each.name for each in (tmp_path / "kills").iterdir())
    tally(kills=planned - len(left_over), queries_killed=killed)
    assert killed == QUERY_KILLS
    assert not left_over
    lines = (tmp_path / "out").read_text().splitlines()
    got = [
        Got(batch, (first, second), [tuple(r) for r in rows])
        for batch, (first, second), rows in map(json.loads, lines)
    ]
    waiting = check(got, left, now, slow)
    kept = wt.Table.open(pending).scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(kept) == sorted(waiting)


def key(rng: random.Random) -> int | None:
    return None if rng.random() < 0.1 else rng.randrange(KEYS)


def plan_kills(rng: random.Random, folder: Path) -> int:
    """A worker at every point; half of the queries where the sink has the rows, half at some of the points."""
    folder.mkdir()
    plans = {(rng.randrange(BATCHES), point): "worker" for point in POINTS}
    plans |= {(b, SINK): "all" for b in rng.sample(range(BATCHES), QUERY_KILLS - QUERY_KILLS // 2)}
    for chosen in rng.sample([each for each in plans if each[1] != SINK], QUERY_KILLS // 2):
        plans[chosen] = "all"
    for (batch_id, point), who in plans.items():
        (folder / f"{batch_id}.{point}").write_text(who)
    return len(plans)


@contextmanager
def writing(rng: random.Random, now: wt.Table, slow: wt.Table) -> Iterator[None]:
    """Each has a snapshot from the first on; keys of `slow` come late, and some go again."""
    now.write([{"k": k, "city": "city 0"} for k in range(KEYS)])
    slow.write([{"k": 0, "name": "name 0"}])
    stop, seed = threading.Event(), rng.randrange(2**32)

    def write() -> None:
        own, version = random.Random(seed), 0
        while not stop.wait(0.1):
            version += 1
            now.write([{"k": own.randrange(KEYS), "city": f"city {version}"}])
            slow.write([{"k": own.randrange(KEYS), "name": f"name {version}"}])
            if own.random() < 0.7:
                slow.write([{"k": own.randrange(KEYS), "_row_kind": "-D"}])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(PATIENCE_SECONDS)


def run_to_its_end(arguments: list[str]) -> int:
    """How often the query was killed."""
    program = [sys.executable, "-m", "tests.kill.programs.lookup_stream", *arguments]
    deadline, killed = time.monotonic() + DEADLINE_SECONDS, 0
    while True:
        left_seconds = deadline - time.monotonic()
        done = subprocess.run(
            program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=left_seconds
        )
        if done.returncode == 0:
            return killed
        assert done.returncode == -9, done.stderr[-4000:]
        killed += 1


def check(
    got: list[Got], left: list[list[tuple[int, int | None]]], now: wt.Table, slow: wt.Table
) -> list[int]:
    """Batch by batch; the ids of those that wait in the end."""
    waiting: dict[int, tuple[int | None, str | None, int]] = {}
    for batch_id, rows in enumerate(left):
        first, *again = [each for each in got if each.batch_id == batch_id]
        assert all(each == first for each in again), f"batch {batch_id}"
        cities, names = (
            values(table, id) for table, id in zip((now, slow), first.snapshots, strict=True)
        )
        for id, k in rows:
            waiting[id] = (k, cities.get(k), batch_id)
        expected = []
        for id, (k, city, began) in list(waiting.items()):
            if k in names or k is None or batch_id >= began + RETRY_BATCHES:
                expected.append((id, k, city, names.get(k)))
                del waiting[id]
        assert first.rows == sorted(expected, key=lambda row: row[0]), f"batch {batch_id}"
    assert sorted({each.batch_id for each in got}) == list(range(len(left)))
    return list(waiting)


def values(table: wt.Table, snapshot_id: int) -> dict[Any, Any]:
    return {
        row["k"]: [*row.values()][1]
        for row in table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    }
