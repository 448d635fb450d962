"""Every workload that has a tiny size runs at it, to the end, and says what it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.harness import Size
from benchmarks.menu import MENU

SIZED = [name for name, workload in MENU.items() if not workload.only_full]


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
