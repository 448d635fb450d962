"""The soak runs, sees all three processes at work, and knows a line that rises from one that only scatters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.soak import Sample, soak, trend, trends


def test_a_short_soak_measures_all_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "WORK", tmp_path)
    seen: list[Sample] = []
    samples = soak(0.1, seen.append)
    assert seen == samples
    assert len(samples) == 10
    last = samples[-1]
    assert last.writes > samples[0].writes
    assert last.rows_followed > 0
    assert last.snapshots > 0
    assert min(last.writer_mib, last.maintainer_mib, last.follower_mib) > 0
    assert {each.column for each in trends(samples)} >= {"cpu_ms", "writer_mib", "maintainer_mib"}
    assert list(tmp_path.iterdir()) == [], "a soak leaves nothing behind"


def test_a_line_rises_when_it_grows_more_than_a_tenth_and_more_than_its_scatter(
    rng: random.Random,
) -> None:
    minutes = list(range(60))
    assert not trend("c", minutes, [14 + m * 9 / 60 + rng.random() for m in minutes]).is_flat
    assert trend("c", minutes, [14 + m * 1 / 60 for m in minutes]).is_flat
    assert trend("c", minutes, [14.0 if m % 2 else 28.0 for m in minutes]).is_flat
    assert trend("c", minutes, [14 - m * 0.1 for m in minutes]).is_flat
    assert trend("c", [1.0, 2.0], [1.0, 9.0]).is_flat, "two points are no line"
