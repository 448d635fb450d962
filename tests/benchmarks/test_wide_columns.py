"""The tasks of the workload `wide_columns` run and measure; a process that takes too much is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bounded_process import Bounds, Exceeded, Finished, run_bounded
from benchmarks.engine.wide_columns_process import READS, WRITES, Shape, measure

_SHAPE = Shape(columns=30, rows=100, keys=200, calls=2)
_IN_SPARK = ("spark write", "spark read", "spark read of one column")  # tests/spark runs these


@pytest.mark.parametrize("source", [name for name in WRITES if name not in _IN_SPARK])
def test_what_a_task_writes_the_tasks_of_its_table_read(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    path = str(tmp_path / "bench.db" / "t")
    written = measure(source, path, _SHAPE)
    assert len(written.calls) == _SHAPE.calls
    assert written.scan is not None
    for task in [name for name, (of, _) in READS.items() if of == source]:
        if task not in _IN_SPARK:
            assert all(seconds > 0 for seconds in measure(task, path, _SHAPE).calls), task


def test_a_process_is_stopped_at_its_time() -> None:
    stopped = run_bounded(
        Bounds(seconds=0.2, memory_bytes=1 << 40), "timeit", "-n", "1", "while True: pass"
    )
    assert isinstance(stopped, Exceeded)
    assert stopped.seconds >= 0.2


def test_a_process_is_stopped_at_its_memory() -> None:
    code = "x = [b'a' * 1000000 for i in range(10**6)]"
    stopped = run_bounded(Bounds(seconds=60, memory_bytes=100 << 20), "timeit", "-n", "1", code)
    assert isinstance(stopped, Exceeded)
    assert stopped.peak_bytes > 100 << 20


def test_the_last_line_of_a_process_is_its_answer(tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    given.write_text('{"calls": [1.5]}')
    done = run_bounded(Bounds(60, 1 << 40), "json.tool", "--compact", given)
    assert isinstance(done, Finished)
    assert done.printed == {"calls": [1.5]}


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_bounded(Bounds(60, 1 << 40), "timeit", "-n", "1", "1 / 0")
