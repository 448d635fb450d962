"""Whoever has to do with barriers is killed before a file that it publishes, at one after the other: roots, a derived
job, compactions, expiry, registrations, plans and consumers. What sessions show in between is right and never goes
back, and the next life finishes all of it.

Each round of the program is killed from a copy of what the rounds before it left.
"""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.processes import start
from tests.kill.programs.barrier_program import ROWS, SINK, SOURCES
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from tests.support.tables.derived_job import sink_table, source_table
from widetable.errors import NotFoundError

ROUNDS = 3


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


def ended(warehouse: Path, rounds: int, call: int = -1) -> int:
    """The exit code of a life that ends with so many rounds."""
    process = start("barrier_program", [str(warehouse), str(rounds), str(call)], warehouse / "out")
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in (0, -9), (warehouse / "out").read_text()
    return process.exitcode


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS * 2)
def test_killed_before_any_publish_the_next_life_finishes(tmp_path: Path, tally: Note) -> None:
    before, warehouse = tmp_path / "before", tmp_path / "killed"
    made(before)
    kills = seen = 0
    for rounds in range(1, ROUNDS + 1):
        for call in count():
            shutil.copytree(before, warehouse)
            if ended(warehouse, rounds, call) == 0:
                break
            kills += 1
            barrier = shown(warehouse)
            until = min(rounds + 1, ROUNDS)
            assert ended(warehouse, until) == 0
            assert shown(warehouse) == until * 10 >= barrier
            seen += barrier > 0
            name = (*SOURCES.values(), SINK)[call % 3]
            assert wt.Catalog(warehouse).table(name).audit().findings == ()
            shutil.rmtree(warehouse)
        shutil.rmtree(before)
        warehouse.rename(before)
    assert kills > 50
    assert seen
    tally(kills=kills, seen=seen)
