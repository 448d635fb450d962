"""Threads that work for a caller: order, errors, ends, and what is done where there is no thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from widetable.runtime.worker_thread import Task, WorkerThread, in_threads

ROOT = Path(__file__).resolve().parents[3]
# No stack is so large: the system refuses every thread from then on.
_WITHOUT_THREADS = """
import sys, threading
import pyarrow as pa
import widetable as wt
threading.stack_size(1 << 46)
try:
    threading.Thread(target=print).start()
except RuntimeError:
    pass
else:
    sys.exit("a thread was started")
"""
_WRITES = """
from tests.support.faults.ending_process import WORK, create, rows
for work in WORK:
    table = create(sys.argv[1], work)
    for number in range(8):
        assert table.write(rows(number), "job", number).committed
    table.wait_for_compactions()
    assert table.inspect().backlog.files == 0
    assert table.scan().to_arrow().num_rows == len(rows(0))
    assert table.lookup(rows(0).select(["k"]))["a"].to_pylist() == [7] * len(rows(0))
    assert sum(batch.num_rows for batch in table.change_batches(0, table.snapshots()[-1].id))
    report = table.audit(start=0)
    assert report.ok, report.findings
assert threading.active_count() == 1
"""


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.fixture(params=["with threads", "without threads"])
def worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WorkerThread:
    if request.param == "without threads":
        monkeypatch.setattr(threading.Thread, "start", refuse)
    return WorkerThread("test")


def noted(done: list[int], number: int) -> int:
    done.append(number)
    return number


def submitted(worker: WorkerThread, *tasks: Task[int]) -> tuple[Task[int], ...]:
    for task in tasks:
        worker.submit(task)
    return tasks


def test_tasks_are_done_in_order(worker: WorkerThread) -> None:
    done: list[int] = []
    tasks = submitted(worker, *(Task(partial(noted, done, number)) for number in range(50)))
    assert [task.result() for task in tasks] == list(range(50))
    assert done == list(range(50))
    assert all(task.is_done for task in tasks)


def test_an_error_comes_back_and_the_next_task_is_done(worker: WorkerThread) -> None:
    def fail() -> int:
        raise SystemExit(7)

    failing, right = submitted(worker, Task(fail), Task(lambda: 2))
    for _ in range(2):
        with pytest.raises(SystemExit, match="7"):
            failing.result()
    failing.wait()
    assert right.result() == 2


@pytest.mark.parametrize("error", [PermissionError(13, "refused"), SystemExit(7)], ids=repr)
def test_tasks_are_done_although_a_thread_cannot_begin_as_it_should(error: BaseException) -> None:
    def refuse_to_begin() -> None:
        raise error

    worker, done = WorkerThread("test", refuse_to_begin), list[int]()
    for number in range(3):
        (task,) = submitted(worker, Task(partial(noted, done, number)))
        wait_for(partial(getattr, task, "is_done"))
    assert done == [0, 1, 2]


def test_no_thread_is_left_when_there_is_no_work() -> None:
    worker = WorkerThread("left")
    for _ in range(3):
        (task,) = submitted(worker, Task(lambda: 1))
        task.result()
        for thread in threading.enumerate():
            if thread.name == "widetable-left":
                thread.join(PATIENCE_SECONDS)
        assert "widetable-left" not in {thread.name for thread in threading.enumerate()}


def test_many_callers_get_all_done_once() -> None:
    """Threads begin and end all the time: none may miss a task, none may do one twice."""
    worker, done = WorkerThread("test"), list[int]()

    def call(number: int) -> None:
        for step in range(number, 800, 8):
            (task,) = submitted(worker, Task(partial(noted, done, step)))
            assert task.result() == step

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_SECONDS)
    assert sorted(done) == list(range(800))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_in_threads_gives_results_in_order(threads: int) -> None:
    barrier = threading.Barrier(threads)

    def work(item: int) -> int:
        if item < threads:
            barrier.wait(PATIENCE_SECONDS)  # all threads are at work at once
        return item * item

    assert in_threads(work, range(20), threads) == [item * item for item in range(20)]
    assert in_threads(work, [], threads) == []


def test_in_threads_raises_the_first_error_and_begins_nothing_new() -> None:
    seen: list[int] = []

    def work(item: int) -> None:
        seen.append(item)
        raise LookupError(item)

    with pytest.raises(LookupError):
        in_threads(work, range(1000), 2)
    assert len(seen) <= 2


def test_in_threads_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert in_threads(lambda item: item + 1, range(5), 3) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_process_that_gets_no_thread_writes_and_reads(tmp_path: Path) -> None:
    """The system refuses: no commit raises, and no changelog is missing."""
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_THREADS + _WRITES, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
