"""WIDETABLE_SEED repeats a run: Hypothesis and `rng` give the same values, another seed gives others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).with_name("conftest.py")
RANDOM_TESTS = """
from hypothesis import given, strategies as st

drawn = []

@given(st.integers())
def test_draws(value):
    drawn.append(value)

def test_shows(rng):
    print("drawn", rng.random(), *drawn)
"""


def drawn_with(seed: int, folder: Path) -> str:
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"))
    (folder / "test_random.py").write_text(RANDOM_TESTS)
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env={**os.environ, "WIDETABLE_SEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"seed: {seed} " in answer.stdout
    (line,) = (line for line in answer.stdout.splitlines() if "drawn" in line)
    return line.partition("drawn")[2]


def test_a_seed_repeats_a_run(tmp_path: Path) -> None:
    first = drawn_with(7, tmp_path / "first")
    assert len(first.split()) > 10
    assert drawn_with(7, tmp_path / "second") == first
    assert drawn_with(8, tmp_path / "third") != first
