"""What the workload `wide_columns` says of a task beside Java, and Java's own process, which needs Paimon's jar."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import harness
from benchmarks.bounded_process import Bounds, Exceeded, Finished
from benchmarks.engine import bench_wide_columns
from benchmarks.engine.bench_wide_columns import run_shape
from benchmarks.engine.wide_columns_process import Shape, batch, measure
from benchmarks.rival import NEWEST, RivalAbsent, java_command
from benchmarks.wide_columns import sides
from benchmarks.wide_columns.report import WideTask, print_task, rows_of
from benchmarks.wide_columns.sides import (
    JavaTasks,
    OurTasks,
    WideSide,
    assert_same_rows,
    run_java,
    save_batches,
)
from benchmarks.wide_columns.sizes import JavaPart, WideShape
from tests.interop.java.java_session import NEEDS_JAVA

_BOUNDS = Bounds(250, 8 << 30)
_PART = {"write-only": JavaPart(30, 1)}


def _shape(widths: tuple[int, ...]) -> WideShape:
    return WideShape(
        widths,
        rows=100,
        keys=200,
        calls=2,
        slow_calls=2,
        rounds=1,
        slow_rounds=1,
        bounds=_BOUNDS,
        java=_PART,
        tasks=("write-only",),
    )


def _side(columns: int, *calls: float, peak_bytes: int = 1 << 30) -> WideSide:
    """Of a task each of whose rounds had one call, and a scan that takes as long."""
    rounds = [Finished({"calls": [each], "scan": each}, peak_bytes) for each in calls]
    return WideSide("write-only", columns, lambda: "not run", [*rounds])


def test_a_ratio_is_the_median_of_those_of_the_rounds() -> None:
    ours = {20: _side(20, 1.0, 2.0, 4.0), 200: _side(200, 1.1, 3.0, 5.0)}
    row = next(iter(rows_of(WideTask("write-only", ours, {}, is_judged=True))))
    assert row.ratio == pytest.approx(1.25)
    assert row.target == "<= 1.3"
    assert row.ok is True


def test_a_row_reaches_the_goal_by_its_worst_measure() -> None:
    ours = {20: _side(20, 1.0), 200: _side(200, 1.0, peak_bytes=2 << 30)}
    row = next(iter(rows_of(WideTask("write-only", ours, {}, is_judged=True))))
    assert row.ratio == 2.0
    assert row.ok is False


def test_java_is_held_against_us_in_the_rounds_that_it_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours = {20: _side(20, 1.0, 1.0), 200: _side(200, 1.0, 8.0)}
    done = WideTask("write-only", ours, {200: _side(200, 6.0)}, is_judged=False)
    assert [row.ratio for row in rows_of(done) if "Java" in row.name] == [6.0]
    print_task(done)
    line = next(each for each in capsys.readouterr().out.splitlines() if "200" in each)
    assert line.split()[-3:] == ["6", "s", "6.0"]


def test_a_side_that_was_stopped_is_not_tried_again_and_says_when() -> None:
    side = WideSide("write-only", 200, lambda: Exceeded(250, 1 << 30))
    side.run()
    side.once = lambda: pytest.fail("it was tried again")
    side.run()
    ours = {20: _side(20, 1.0, 1.0), 200: side}
    row = next(iter(rows_of(WideTask("write-only", ours, {}, is_judged=True))))
    assert row.ours == "not done after 250 s, 1.0 GiB"
    assert (row.ratio, row.ok) == (None, False)


def test_java_says_why_it_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> list[str]:
        raise RivalAbsent("no mvn")

    monkeypatch.setattr(sides, "java_command", absent)
    java = JavaTasks(OurTasks(_shape((30, 40)), tmp_path))
    narrow, wide = java.side("write-only", 30), java.side("write-only", 40)
    assert narrow is not None
    assert narrow.failure == "not measured: no mvn"
    assert wide is not None
    assert wide.failure == "not run above 30 columns: the task takes Java minutes there"
    assert java.side("explain", 30) is None


def test_java_gets_the_rows_that_we_write(tmp_path: Path) -> None:
    shape = Shape(columns=30, rows=5, keys=10, calls=2)
    longs = np.fromfile(save_batches(tmp_path / "batches", shape), "<i8")
    rng = np.random.default_rng(1)
    expected = [batch(rng, shape) for _ in range(2)]
    assert longs[0] == 5
    assert longs[1:].tolist() == [
        value for rows in expected for column in rows.columns for value in column.to_pylist()
    ]


def test_a_run_takes_the_numbers_that_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness, "WORK", tmp_path / "work")
    monkeypatch.setattr(harness, "REPORT", tmp_path / "bench.json")
    given = "--tasks write-only --widths 30 --rows 100 --calls 3 --rounds 1 --java-columns 0"
    assert bench_wide_columns.main(given.split()) == 0
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [(row["name"], row["ok"]) for row in rows] == [
        ("write-only, 20 columns, beside Java", None),
        ("write-only, 30 columns", None),
        ("write-only, 30 columns, beside Java", None),
    ]
    assert rows[0]["theirs"] == f"{sides.JAVA}: not run: it was not asked for"
    assert "-- write-only: 3 calls, 100 rows a batch; rounds: 1" in capsys.readouterr().out


@pytest.mark.interop
@NEEDS_JAVA
@pytest.mark.parametrize("task", ["write-only", "inline compaction", "lookup changelog"])
def test_java_does_the_same_task(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    ours, theirs = (tmp_path / who / "bench.db" / "t" for who in ("ours", "theirs"))
    shape = Shape(columns=30, rows=100, keys=200, calls=6)
    measure(task, str(ours), shape)
    command = java_command(NEWEST, [sides.SOURCE], tmp_path)
    batches = save_batches(tmp_path / "batches", shape)
    done = run_java(command, _BOUNDS, (task, theirs, 30, batches, 6))
    assert isinstance(done, Finished)
    assert len(done.printed["calls"]) == 6
    assert min(*done.printed["calls"], done.printed["scan"]) > 0
    assert_same_rows(ours, theirs)


@pytest.mark.interop
@NEEDS_JAVA
def test_a_run_goes_up_to_the_widest_table_of_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "WORK", tmp_path)
    rows = {row.name: row for row in run_shape(_shape((30, 40)))}
    beside = [name for name in rows if name.endswith("beside Java")]
    assert len(beside) == 3
    assert rows["write-only, 30 columns, beside Java"].ratio is not None
    assert "not run above 30 columns" in rows["write-only, 40 columns, beside Java"].theirs
    assert list(tmp_path.iterdir()) == []
