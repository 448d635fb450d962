"""Threads that compact behind commits: one piece of work after the other, errors logged, forks survived."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.operations.handle.compaction_threads import CompactionThread

_SHORT_SECONDS = 0.05
ROOT = Path(__file__).resolve().parents[4]
FORKS = """
import os
import threading
from widetable.operations.handle.compaction_threads import CompactionThread
thread = CompactionThread("test")
hold = threading.Event()
thread.submit("t", hold.wait)
child = os.fork()
if child == 0:
    thread.submit("t", lambda: print("done in the child", flush=True))
    thread.wait("t")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
hold.set()
"""


def test_wait_returns_when_the_work_of_the_table_is_done() -> None:
    thread, done = CompactionThread("test"), []
    go = threading.Event()
    thread.submit("a", lambda: done.append("a") if go.wait(PATIENCE_SECONDS) else None)
    thread.submit("a", lambda: done.append("then"))
    thread.wait("another")
    assert not done
    go.set()
    thread.wait("a")
    assert done == ["a", "then"]


def test_who_asks_alone_is_not_heard_while_some_work_is_left() -> None:
    thread, done = CompactionThread("test"), []
    go = threading.Event()
    thread.submit("a", lambda: done.append(1) if go.wait(PATIENCE_SECONDS) else None, is_alone=True)
    thread.submit("a", lambda: done.append(2), is_alone=True)
    thread.submit("b", lambda: done.append(3), is_alone=True)
    go.set()
    thread.wait("a")
    thread.wait("b")
    assert done == [1, 3]


def test_who_looks_at_all_is_heard_unless_one_of_them_has_yet_to_begin() -> None:
    """The first may have looked before the second asks; the second sees what the third would see."""
    thread, done = CompactionThread("test"), []
    has_begun, go = threading.Event(), threading.Event()

    def first() -> None:
        has_begun.set()
        assert go.wait(PATIENCE_SECONDS)
        done.append(1)

    thread.submit("a", first, looks_at_all=True)
    assert has_begun.wait(PATIENCE_SECONDS)
    thread.submit("a", lambda: done.append(2), looks_at_all=True)
    thread.submit("a", lambda: done.append(3), looks_at_all=True)
    go.set()
    thread.wait("a")
    assert done == [1, 2]


@pytest.mark.parametrize("fails", [False, True])
def test_appends_keep_the_pace_of_work_with_new_rows_until_it_ends(fails: bool) -> None:
    thread, go = CompactionThread("test"), threading.Event()

    def work() -> None:
        assert go.wait(PATIENCE_SECONDS)
        assert not fails

    thread.submit("a", work, new_rows={"file": 80})
    thread.pace("a").follow(20)  # nothing was appended before it
    append = threading.Thread(target=thread.pace("a").follow, args=(20,))
    append.start()
    append.join(_SHORT_SECONDS)
    has_waited = append.is_alive()
    go.set()
    append.join(PATIENCE_SECONDS)
    assert has_waited
    assert not append.is_alive(), "it waits for ever"
    thread.wait("a")
    thread.pace("a").follow(1000)


def test_an_unforeseen_error_is_logged_and_the_thread_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    thread, done = CompactionThread("test"), []

    def fail() -> None:
        raise ZeroDivisionError("a bug of ours")

    with caplog.at_level(logging.ERROR, logger="widetable"):
        thread.submit("a", fail)
        thread.wait("a")
    assert "a bug of ours" in caplog.text
    thread.submit("a", lambda: done.append(1))
    thread.wait("a")
    assert done == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert ran.stdout == "done in the child\n"


def test_work_is_done_in_the_caller_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    thread, done = CompactionThread("test"), []
    thread.submit("a", lambda: done.append(threading.current_thread()))
    thread.submit("a", lambda: done.append(threading.current_thread()), is_alone=True)
    thread.wait("a")
    assert done == [threading.current_thread()] * 2
