"""The collector is stopped for one section, and runs again in every process and thread that is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.runtime.collector_pause import collector_paused

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("running", [True, False])
def test_it_is_afterwards_as_it_was_also_after_an_error(running: bool) -> None:
    (gc.enable if running else gc.disable)()
    try:
        with suppress(ZeroDivisionError), collector_paused():
            with collector_paused():
                assert not gc.isenabled()
            assert not gc.isenabled()
            assert 1 / 0
        assert gc.isenabled() == running
    finally:
        gc.enable()


def test_it_runs_when_the_last_of_many_threads_has_left() -> None:
    def come_and_go() -> None:
        for _ in range(2_000):
            with collector_paused():
                pass

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()


_CHILD = """
import gc, os, signal, sys, threading
from widetable.runtime.collector_pause import collector_paused

def fork():
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 3)
    assert os.waitpid(child, 0)[1] == 0, "the child's collector stands still"

inside, over = threading.Event(), threading.Event()
def stay():
    with collector_paused():
        inside.set()
        over.wait()

if sys.argv[1] == "another thread":
    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()
    fork()
    assert not gc.isenabled()
    over.set()
    thread.join()
else:
    signal.signal(signal.SIGUSR1, lambda *_: fork())
    with collector_paused():
        os.kill(os.getpid(), signal.SIGUSR1)
        assert not gc.isenabled()
assert gc.isenabled()
"""


@pytest.mark.parametrize("inside", ["another thread", "a signal handler"])
@pytest.mark.skipif(not hasattr(os, "fork") or not hasattr(signal, "SIGUSR1"), reason="no forks")
def test_a_child_collects_whoever_is_inside_when_it_is_forked(inside: str) -> None:
    subprocess.run(
        [sys.executable, "-c", _CHILD, inside], cwd=ROOT, check=True, timeout=PATIENCE_SECONDS
    )
