"""How the demo's files come: the first ones at once, the others in order and evenly, each as a whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from examples.flights import arrivals
from examples.flights.arrivals import Arrivals
from examples.flights.inputs import store_streams
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
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "RECORDS_PER_SECOND", 10_000)
    with Arrivals(workspace, ROWS * sum(COUNTS.values())) as coming:
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


def test_no_file_comes_sooner_than_the_pace_allows(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are as far apart as their records take at the pace; a slow machine makes it longer, never shorter."""
    monkeypatch.setattr(arrivals, "RECORDS_PER_SECOND", 1_000)
    with Arrivals(workspace, ROWS * sum(COUNTS.values())) as coming:
        coming.begin()
        wait_for(lambda: all(len(coming.times[name]) == count for name, count in COUNTS.items()))
    others = sorted(time for times in coming.times.values() for time in times[1:])
    assert others[-1] - others[0] >= (len(others) - 1) * ROWS / 1_000 - 0.005


def test_nothing_comes_after_the_end(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "RECORDS_PER_SECOND", 0.001)
    with Arrivals(workspace, ROWS * sum(COUNTS.values())) as coming:
        coming.begin()
    assert sum(map(len, _here(workspace).values())) <= len(COUNTS) + 1
