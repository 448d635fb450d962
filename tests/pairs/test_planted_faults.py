"""The array goes red for each planted fault: in a scenario in which the features meet that it needs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import widetable as wt
from tests.pairs.covering import covering
from tests.pairs.dimensions import DIMENSIONS
from tests.pairs.planted_faults import FAULTS
from tests.pairs.rules import may_meet
from tests.pairs.scenario import play
from tests.support.models.model import Row

# Of this process alone, and quick.
_QUICK = {
    **DIMENSIONS,
    "client": ("none",),
    "environment": ("plain", "another zone"),
    "reader": (
        "scan",
        "columns and condition",
        "condition on values",
        "time travel",
        "lookup",
        "follow",
    ),
}
_MOST = 8
_ARRAYS = 3


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Some arrays, whatever the run's seed is: a fault may need three values, which are not in each of them."""
    return [row for seed in range(_ARRAYS) for row in covering(_QUICK, may_meet, f"planted {seed}")]


def fails(row: Row, folder: Path) -> bool:
    """Whether the scenario is red: a reader says something else, or an error of the product ends it."""
    try:
        play(row, random.Random("planted"), folder)
    except (AssertionError, wt.WidetableError):
        return True
    return False


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(tmp_path: Path, rows: list[Row], name: str) -> None:
    fault = FAULTS[name]
    concerned = [row for row in rows if fault.shows_in(row)][:_MOST]
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        folders = (tmp_path / str(number) for number in range(_MOST))
        red = next((row for row in concerned if fails(row, next(folders))), None)
    assert red is not None
    assert not fails(red, tmp_path / "without")
