"""How the demo's files come: the first ones at once, the others in order, at a pace that the machine holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from examples.flights.arrivals import Arrivals
from examples.flights.inputs import store_streams
from examples.flights.pace import next_pace
from examples.flights.wide_table import STREAMS
from examples.flights.workspace import Workspace
from tests.support.faults.patience import wait_for

COUNTS = {group.name: 2 + number for number, group in enumerate(STREAMS)}
ROWS = 10


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    rows = pa.table({"a": range(ROWS)})
    store_streams({name: [rows] * count for name, count in COUNTS.items()}, workspace)
    return workspace


def _here(workspace: Workspace) -> dict[str, list[str]]:
    return {
        name: sorted(path.name for path in workspace.arrived(name).iterdir()) for name in COUNTS
    }


def test_the_first_files_are_there_at_once_and_the_others_when_it_begins(
    workspace: Workspace,
) -> None:
    with Arrivals(workspace, ROWS * sum(COUNTS.values()), 10_000) as coming:
        assert coming.counts == COUNTS
        assert {name: len(times) for name, times in coming.times.items()} == dict.fromkeys(
            COUNTS, 1
        )
        assert not coming.has_begun
        coming.begin()
        wait_for(lambda: all(len(coming.times[name]) == count for name, count in COUNTS.items()))
    for name in COUNTS:
        files = sorted(path.name for path in workspace.stream(name).iterdir())
        assert _here(workspace)[name] == files
        assert coming.times[name] == sorted(coming.times[name])


def test_no_file_comes_sooner_than_the_pace_allows(workspace: Workspace) -> None:
    """The others are as far apart as their records take at the pace; a slow machine makes it longer, never shorter."""
    with Arrivals(workspace, ROWS * sum(COUNTS.values()), 1_000) as coming:
        coming.begin()
        wait_for(lambda: all(len(coming.times[name]) == count for name, count in COUNTS.items()))
    others = sorted(time for times in coming.times.values() for time in times[1:])
    assert others[-1] - others[0] >= (len(others) - 1) * ROWS / 1_000 - 0.005


def test_nothing_comes_after_the_end(workspace: Workspace) -> None:
    with Arrivals(workspace, ROWS * sum(COUNTS.values()), 0.001) as coming:
        coming.begin()
    assert sum(map(len, _here(workspace).values())) <= len(COUNTS) + 1


@pytest.mark.parametrize(
    ("waiting_files", "behind_seconds", "factor"),
    [(0, 1.0, 1.02), (1, 4.0, 1.02), (2, 1.0, 1.0), (1, 4.5, 1.0), (3, 1.0, 0.9), (0, 6.5, 0.9)],
)
def test_the_pace_follows_what_waits(
    waiting_files: int, behind_seconds: float, factor: float
) -> None:
    assert next_pace(10_000, waiting_files, behind_seconds) == pytest.approx(10_000 * factor)


def test_the_pace_stays_within_its_bounds() -> None:
    slow = fast = 10_000.0
    for _ in range(1_000):
        slow, fast = next_pace(slow, 9, 60.0), next_pace(fast, 0, 1.0)
    assert (slow, fast) == (3_000, 100_000)


def test_files_that_wait_make_the_others_come_later(workspace: Workspace) -> None:
    with Arrivals(workspace, ROWS * sum(COUNTS.values()), 3_000) as coming:
        for _ in range(200):
            coming._set_pace(dict.fromkeys(COUNTS, -9), 1.0)
        assert coming._records_per_second == 3_000
        coming._set_pace(dict.fromkeys(COUNTS, 1), 1.0)
        assert coming._records_per_second == pytest.approx(3_060)
