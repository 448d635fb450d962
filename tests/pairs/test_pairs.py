"""Everything that may meet in a table meets, pair by pair, and every reader says what the model says.

WIDETABLE_PAIRS: how many scenarios are drawn of a covering array (default 24), "all" for whole arrays.
WIDETABLE_PAIR_ROUNDS: how many arrays (default 1).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.conftest import SEED
from tests.interop.conftest import NATIVE, PypaimonProcess
from tests.model import Row
from tests.pairs.covering import covering
from tests.pairs.dimensions import DIMENSIONS, may_meet
from tests.pairs.scenario import play
from tests.tallies import Note

ROUNDS = int(os.environ.get("WIDETABLE_PAIR_ROUNDS", "1"))
PAIRS = os.environ.get("WIDETABLE_PAIRS", "24")


def scenarios() -> list[Row]:
    """The drawn ones; those of a run are the same in each of its processes."""
    found = [
        row
        for number in range(ROUNDS)
        for row in covering(DIMENSIONS, may_meet, f"{SEED} {number}")
    ]
    if PAIRS == "all":
        return found
    return random.Random(f"{SEED} pairs").sample(found, min(int(PAIRS), len(found)))


SCENARIOS = scenarios()


@pytest.fixture(scope="module")
def pypaimon(request: pytest.FixtureRequest) -> Iterator[Callable[[], PypaimonProcess]]:
    """Its process, which starts when it is asked for first."""
    started: list[PypaimonProcess] = []

    def asked() -> PypaimonProcess:
        if not started:
            started.append(PypaimonProcess(request.getfixturevalue("interop_python")))
        return started[0]

    yield asked
    for process in started:
        process.close()


@pytest.mark.parametrize("number", range(len(SCENARIOS)))
def test_what_meets_says_what_the_model_says(
    tmp_path: Path, number: int, pypaimon: Callable[[], PypaimonProcess], tally: Note
) -> None:
    def theirs(table: wt.Table, rows: pa.Table) -> None:
        file = tmp_path / "theirs.arrow"
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        pypaimon().ask(table, write=str(file), options=NATIVE)

    play(SCENARIOS[number], random.Random(f"{SEED} {number}"), tmp_path / "wh", theirs)
    tally(cases=1)
