"""Whoever has to do with barriers is killed before a file that it publishes, at one after the other: roots, a derived
job, compactions, expiry, registrations, plans and consumers. What sessions show in between is right and never goes
back, and the next life finishes all of it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import widetable as wt
from tests.derived_job import sink_table, source_table
from tests.kill.barrier_program import ROUNDS, ROWS, SINK, SOURCES
from tests.kill.processes import start
from tests.patience import PATIENCE_SECONDS
from tests.tallies import Note
from widetable.errors import NotFoundError

MOST_PUBLISHES = 2_000


def made(warehouse: Path) -> None:
    for column, producer in (("x", "lookup"), ("y", "none")):
        source_table(warehouse, column, changelog_producer=producer)
    sink_table(warehouse, "s", list(SOURCES), **{"changelog-producer": "lookup"})


def shown(warehouse: Path) -> int:
    """The barrier of a session over all tables; 0 without one. Its rows are those of the barrier."""
    try:
        session = wt.Catalog(warehouse).session([*SOURCES.values(), SINK])
    except NotFoundError:
        return 0
    with session:
        barrier = session.barrier or 0
        rounds = barrier // 10
        for column, name in SOURCES.items():
            rows = session.table(name).scan().to_arrow().to_pylist()
            expected = {key: key // ROWS for key in range(rounds * ROWS)}
            expected |= {-1: rounds - 1} if column == "x" else {}
            assert {row["id"]: row["v"] for row in rows} == expected, f"{name} at {barrier}"
        (counted,) = session.table(SINK).scan().to_arrow().to_pylist()
        assert counted == {"id": 0, "x": 1 + rounds * ROWS, "y": rounds * ROWS}
        return barrier


def ended(warehouse: Path, call: int) -> int:
    """The exit code of a life."""
    process = start("barrier_program", [str(warehouse), str(call)], warehouse / "out")
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in (0, -9), (warehouse / "out").read_text()
    return process.exitcode


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS * 2)
def test_killed_before_any_publish_the_next_life_finishes(tmp_path: Path, tally: Note) -> None:
    made(tmp_path / "made")
    kills = seen = 0
    for call in range(MOST_PUBLISHES):
        warehouse = tmp_path / str(call)
        shutil.copytree(tmp_path / "made", warehouse)
        if ended(warehouse, call) == 0:
            break
        kills += 1
        before = shown(warehouse)
        assert ended(warehouse, -1) == 0
        assert shown(warehouse) == ROUNDS * 10 >= before
        seen += before > 0
        name = (*SOURCES.values(), SINK)[call % 3]
        assert wt.Catalog(warehouse).table(name).audit().findings == ()
        shutil.rmtree(warehouse)
    assert kills > 50
    assert seen
    tally(kills=kills, seen=seen)
