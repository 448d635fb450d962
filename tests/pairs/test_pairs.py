"""Everything that may meet in a table meets, pair by pair, and every reader says what the model says.

`array` says how many scenarios are played; those with Spark are played in tests/spark, where its session is.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.pairs.array import scenarios
from tests.pairs.other_clients import Others
from tests.pairs.pypaimon_client import PypaimonClient
from tests.pairs.scenario import play
from tests.support.programs.tallies import Note

SCENARIOS = scenarios(of_spark=False)


@pytest.mark.parametrize("number", range(len(SCENARIOS)))
def test_what_meets_says_what_the_model_says(
    tmp_path: Path,
    number: int,
    pypaimon: PypaimonClient,
    request: pytest.FixtureRequest,
    tally: Note,
) -> None:
    others = Others(
        {"pypaimon": pypaimon.write},
        {"pypaimon": pypaimon.read},
        server=lambda: int(request.getfixturevalue("server")),
    )
    play(SCENARIOS[number], random.Random(f"{SEED} {number}"), tmp_path / "wh", others)
    tally(cases=1)
