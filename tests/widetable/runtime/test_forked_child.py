"""What threads share is usable in a forked child, whatever they were doing at that moment."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import queue
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import widetable
import widetable_lookup
import widetable_spark
from tests.support.faults.forked import in_a_child
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE, DecodedList
from widetable.lsm.scan_history import SCAN_HISTORY
from widetable.runtime.forked_child import UNFORKABLE, ForkGate, SharedByThreads

ROOT = Path(__file__).resolve().parents[3]
LOCKS = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
    threading.Semaphore,
    queue.Queue,
    queue.SimpleQueue,
)
# What a thread does always while children are forked, which do it once.
_WORK = {
    "compile what no cache has": """
from widetable.kernels.jit import Kernel
def work():
    assert Kernel(lambda x: x + 1).compile(1) == 2
""",
    "import numba for the first kernel": """
import sys
import numpy as np
from widetable.kernels.sort_order import _ascending
assert "numba" not in sys.modules
def work():
    assert _ascending.compile(np.arange(9))
""",
}
_WHILE_FORKING = """
import os, threading, time, warnings
warnings.simplefilter("ignore")
stop = threading.Event()
def work_always():
    while not stop.is_set():
        work()
thread = threading.Thread(target=work_always)
thread.start()
for number in range(8):
    time.sleep(0.02 * number)
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    end = time.monotonic() + 1500
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, 9)
            stop.set()
            raise SystemExit("a child hangs")
        time.sleep(0.01)
stop.set()
"""


# A child that hangs is killed after 60 s.
_FILTERING = """
import os, signal, sys, threading, warnings
import pyarrow as pa, pyarrow.compute as pc
from widetable.read.predicate import filtered
warnings.simplefilter("ignore")
rows = pa.table({"a": [1, 2]})
def work():
    assert filtered(rows, pc.field("a") > 1).num_rows == 1
thread = threading.Thread(target=work)
assert "pyarrow.acero" not in sys.modules
thread.start()
while "pyarrow.acero" not in sys.modules and thread.is_alive():
    pass
child = os.fork()
if child == 0:
    signal.alarm(60)
    work()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "a child hangs"
"""


class Counter(SharedByThreads):
    """Counts in a dictionary of its own, under a lock."""

    def _reset(self) -> None:
        self.lock = threading.Lock()
        self.counts: dict[str, int] = {}

    def count(self, name: str) -> int:
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1
            return self.counts[name]


def modules_of(package: types.ModuleType) -> Iterator[types.ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            yield module
            if found.ispkg:
                yield from modules_of(module)


@pytest.mark.parametrize("package", [widetable, widetable_lookup, widetable_spark])
def test_every_lock_that_lives_as_long_as_the_process_is_made_anew(
    package: types.ModuleType,
) -> None:
    """At module level, and in objects that are there."""
    faults = []
    for module in modules_of(package):
        for name, value in vars(module).items():
            if isinstance(value, SharedByThreads | ForkGate | types.ModuleType | type):
                continue
            if any(isinstance(each, LOCKS) for each in [value, *attributes_of(value)]):
                faults.append(f"{module.__name__}.{name}")
    assert faults == []


def attributes_of(value: object) -> list[object]:
    return list(getattr(value, "__dict__", {}).values())


def held(lock: threading.Lock, work: Callable[[], None]) -> None:
    """Do the work while another thread has the lock."""
    is_held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            done.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(PATIENCE_SECONDS)
    work()
    done.set()
    thread.join()


def test_a_child_has_a_lock_and_a_content_of_its_own() -> None:
    counter = Counter()
    assert counter.count("a") == 1

    def in_child() -> None:
        assert counter.count("a") == 1
        assert counter.count("a") == 2

    def fork() -> None:
        assert os.waitpid(in_a_child(in_child), 0)[1] == 0

    held(counter.lock, fork)
    assert counter.count("a") == 2


def test_caches_of_the_process_are_usable_in_a_child() -> None:
    def in_child() -> None:
        SCAN_HISTORY.add("x", 1.0)
        MANIFEST_CACHE.put("x", DecodedList([], 0))
        assert MANIFEST_CACHE.get("x") is not None

    def fork() -> None:
        assert os.waitpid(in_a_child(in_child), 0)[1] == 0

    held(SCAN_HISTORY._lock, lambda: held(MANIFEST_CACHE._lock, fork))


def test_what_nobody_has_any_more_is_not_made_anew() -> None:
    made: list[int] = []

    class Noted(SharedByThreads):
        def _reset(self) -> None:
            made.append(os.getpid())

    kept, forgotten = Noted(), Noted()
    assert kept is not forgotten
    del forgotten
    gc.collect()

    def in_child() -> None:
        assert made.count(os.getpid()) == 1

    assert os.waitpid(in_a_child(in_child), 0)[1] == 0


def test_a_fork_waits_until_nobody_is_where_it_must_not_happen() -> None:
    inside, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def stay() -> None:
        with UNFORKABLE, UNFORKABLE:
            inside.set()
            leave.wait(PATIENCE_SECONDS)
            order.append("left")

    def in_child() -> None:
        with UNFORKABLE:
            assert order == ["left"]

    def fork() -> None:
        children.append(in_a_child(in_child))
        order.append("forked")

    children: list[int] = []
    staying, forking = threading.Thread(target=stay), threading.Thread(target=fork)
    staying.start()
    inside.wait(PATIENCE_SECONDS)
    forking.start()
    time.sleep(0.05)
    assert order == []
    leave.set()
    for thread in (staying, forking):
        thread.join(PATIENCE_SECONDS)
    assert os.waitpid(children[0], 0)[1] == 0
    assert order == ["left", "forked"]
    with UNFORKABLE:
        pass


def test_a_fork_does_not_wait_for_those_who_come_again_and_again() -> None:
    """There is always somebody inside: each leaves only after the other came."""
    ending, sides = threading.Event(), [threading.Event(), threading.Event()]

    def come_again(mine: threading.Event, others: threading.Event) -> None:
        while not ending.is_set():
            with UNFORKABLE:
                mine.set()
                others.wait(0.2)
                others.clear()

    threads = [
        threading.Thread(target=come_again, args=pair, daemon=True) for pair in (sides, sides[::-1])
    ]
    for thread in threads:
        thread.start()
    forking = threading.Thread(target=lambda: children.append(in_a_child(lambda: None)))
    children: list[int] = []
    forking.start()
    forking.join(PATIENCE_SECONDS)
    ending.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert [os.waitpid(child, 0)[1] for child in children] == [0]


def test_who_is_inside_comes_in_again_while_a_fork_waits() -> None:
    inside, forks = threading.Event(), threading.Event()

    def stay() -> None:
        with UNFORKABLE:
            inside.set()
            forks.wait(PATIENCE_SECONDS)
            time.sleep(0.05)
            with UNFORKABLE:
                pass

    staying = threading.Thread(target=stay)
    staying.start()
    inside.wait(PATIENCE_SECONDS)
    forking = threading.Thread(target=lambda: children.append(in_a_child(lambda: None)))
    children: list[int] = []
    forking.start()
    forks.set()
    for thread in (forking, staying):
        thread.join(PATIENCE_SECONDS)
    assert [os.waitpid(child, 0)[1] for child in children] == [0]


def test_who_is_inside_may_fork_as_a_signal_handler_does() -> None:
    def in_child() -> None:
        with UNFORKABLE:
            pass

    with UNFORKABLE:
        child = in_a_child(in_child)
    assert os.waitpid(child, 0)[1] == 0
    with UNFORKABLE:  # and the child leaves what its parent entered
        grandchild = os.fork()
    if grandchild == 0:
        try:
            with UNFORKABLE:
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(grandchild, 0)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("work", _WORK.values(), ids=_WORK)
def test_children_compile_while_their_parent_does(work: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", work + _WHILE_FORKING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_a_child_that_is_forked_during_the_first_filtered_read_reads_with_a_filter() -> None:
    """Arrow imports what filters then, and a module that is being imported stays locked in the child."""
    subprocess.run([sys.executable, "-c", _FILTERING], timeout=PATIENCE_SECONDS, check=True)
