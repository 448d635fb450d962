"""Every workload that has a tiny size runs at it, to the end, and says what it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.harness import Size
from benchmarks.menu import MENU

# These stop the Spark session of this process: tests/spark has tests of its own for them.
_SPARK = ("freshness", "lookup_join", "samples", "stream_join")
SIZED = [name for name, each in MENU.items() if not each.only_full and name not in _SPARK]


@pytest.mark.parametrize("name", SIZED)
def test_a_workload_runs_at_its_tiny_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "WORK", tmp_path)
    rows = MENU[name].run(Size.TINY)
    assert rows
    assert all(row.ours for row in rows)
    assert all(row.ok is None for row in rows), "a tiny size says nothing about targets"
    assert list(tmp_path.iterdir()) == [], "a workload leaves nothing behind"
