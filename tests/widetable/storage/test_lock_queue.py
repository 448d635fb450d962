"""Turns at a file: one at a time, in the order of asking, and never a reason to stand still."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.faults.forked import in_a_child
from widetable.storage import lock_queue as local_turn
from widetable.storage.lock_queue import turn

PATIENCE_SECONDS = 600.0
# Without our code: a process that starts fast.
HOLD = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("has it", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "turn")


@contextlib.contextmanager
def held_elsewhere(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process has the turn."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "has it\n"
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.communicate()


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.001)


def gets_a_turn(path: str) -> bool:
    with turn(path, PATIENCE_SECONDS) as is_ours:
        return is_ours


def waiting(path: str) -> int:
    """How many wait in the kernel for a lock of this file."""
    number = os.stat(path).st_ino
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return sum("->" in line and f":{number} " in line for line in lines)


def test_one_at_a_time_in_the_order_of_asking(path: str) -> None:
    order: list[int] = []

    def ask(number: int) -> None:
        with turn(path, PATIENCE_SECONDS) as is_ours:
            assert is_ours
            order.append(number)

    threads = []
    with held_elsewhere(path):
        for number in range(8):
            threads.append(threading.Thread(target=ask, args=(number,)))
            threads[-1].start()
            until(lambda: waiting(path) == len(threads))
        assert order == []
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_one_that_was_killed_has_it_no_longer(path: str) -> None:
    with held_elsewhere(path) as process:
        asking = threading.Timer(0.0, process.kill)
        asking.start()
        with turn(path, PATIENCE_SECONDS) as is_ours:
            assert is_ours
        asking.join()


def test_one_that_stands_still_stops_nobody_twice(path: str) -> None:
    """Who waited in vain goes on, does not wait again while the turn is kept, and waits again when somebody got it."""
    with held_elsewhere(path) as process:
        process.send_signal(signal.SIGSTOP)
        with turn(path, 0.05) as is_ours:
            assert not is_ours
        with turn(path, PATIENCE_SECONDS) as is_ours:
            assert not is_ours
    until(
        lambda: gets_a_turn(path)
    )  # the thread that waited in vain may have it first, for a moment
    with held_elsewhere(path) as process:
        asking = threading.Timer(0.1, process.kill)
        asking.start()
        with turn(path, PATIENCE_SECONDS) as is_ours:
            assert is_ours, "it waited"
        asking.join()
    until(lambda: waiting(path) == 0)


def test_a_queue_that_moves_is_waited_for_beyond_all_patience(path: str) -> None:
    """A slow machine with many writers: nobody stands still, and the last one gets its turn."""
    got: list[bool] = []

    def ask(patience_seconds: float) -> None:
        with turn(path, patience_seconds) as is_ours:
            got.append(is_ours)
            time.sleep(0.3)

    threads = [threading.Thread(target=ask, args=(PATIENCE_SECONDS,)) for _ in range(10)]
    with turn(path, PATIENCE_SECONDS):
        for thread in threads:
            thread.start()
        until(lambda: waiting(path) == len(threads))
        threads.append(threading.Thread(target=ask, args=(2.0,)))
        threads[-1].start()
        until(lambda: waiting(path) == len(threads))
    for thread in threads:
        thread.join()
    assert got == [True] * 11


def test_who_gave_up_waiting_does_not_get_it_later(path: str) -> None:
    with held_elsewhere(path), turn(path, 0.01) as is_ours:
        assert not is_ours
    for _ in range(5):
        with held_elsewhere(path):
            pass


def test_a_block_that_fails_gives_it_back(path: str) -> None:
    with pytest.raises(KeyError), turn(path, PATIENCE_SECONDS):
        raise KeyError
    with turn(path, PATIENCE_SECONDS) as is_ours:
        assert is_ours


def test_a_child_that_was_forked_meanwhile_does_not_keep_it(path: str) -> None:
    with turn(path, PATIENCE_SECONDS):
        child = in_a_child(lambda: time.sleep(3600))
    try:
        with turn(path, PATIENCE_SECONDS) as is_ours:
            assert is_ours
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_where_there_is_no_directory_there_is_no_turn(tmp_path: Path) -> None:
    with turn(str(tmp_path / "gone" / "turn"), PATIENCE_SECONDS) as is_ours:
        assert not is_ours
    assert not (tmp_path / "gone").exists()


def test_where_no_thread_can_be_started_nobody_waits(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with held_elsewhere(path):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with turn(path, PATIENCE_SECONDS) as is_ours:
            assert not is_ours


def test_descriptors_are_closed_whatever_happened(path: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with turn(path, PATIENCE_SECONDS):
            pass
    with held_elsewhere(path):
        local_turn._STUCK.pop(path, None)
        with turn(path, 0.01):
            pass
    until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_who_waited_in_vain_waits_again_as_soon_as_it_moves_on(path: str) -> None:
    """Also where so many ask for it that whoever looks never finds it free."""
    with held_elsewhere(path), turn(path, 0.01) as is_ours:
        assert not is_ours
        until(lambda: waiting(path) == 1)
    until(lambda: waiting(path) == 0 and not waiting_threads())
    with held_elsewhere(path) as process:

        def kill_when_asked() -> None:
            until(lambda: waiting(path) == 1)
            process.kill()

        asking = threading.Thread(target=kill_when_asked, daemon=True)
        asking.start()
        with turn(path, PATIENCE_SECONDS) as is_ours:
            assert is_ours
        asking.join()


@pytest.mark.parametrize("is_begun", [True, False])
def test_an_interrupt_while_it_begins_to_wait_takes_nobody_elses_file(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    """The number of a descriptor that is closed is that of the next file."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if is_begun:
            start(thread)
            until(lambda: waiting(path) == 1)
        raise KeyboardInterrupt

    with held_elsewhere(path):
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt), turn(path, PATIENCE_SECONDS):
            pass
        monkeypatch.undo()
        others = [os.open(tmp_path / f"{n}", os.O_CREAT | os.O_RDWR) for n in range(3)]
    until(lambda: not waiting_threads())
    for other in others:
        os.close(other)


def test_a_child_that_was_forked_meanwhile_does_not_outlive_it(path: str, tmp_path: Path) -> None:
    """A process is killed while it has the turn and a child."""
    has_it = tmp_path / "has it"

    def hold() -> None:
        with turn(path, PATIENCE_SECONDS):
            has_it.write_text(str(in_a_child(lambda: time.sleep(3600))), encoding="ascii")
            time.sleep(3600)

    parent = in_a_child(hold)
    until(lambda: has_it.exists() and has_it.read_text(encoding="ascii") != "")
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    try:
        with turn(path, 5.0) as is_ours:
            assert is_ours
    finally:
        os.kill(int(has_it.read_text(encoding="ascii")), signal.SIGKILL)


def waiting_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "widetable-turn"]


def test_another_user_takes_turns_at_the_same_file(path: str) -> None:
    """Whose file it is decides the first one that asks; the others may read it."""

    def ask() -> None:
        os.setuid(65534)
        with turn(path, 0.05) as is_ours:
            assert is_ours

    if os.getuid() != 0:
        pytest.skip("only root becomes another user")
    open_to_all(Path(path).parent)
    with turn(path, PATIENCE_SECONDS):
        pass
    assert os.waitpid(in_a_child(ask), 0)[1] == 0


def open_to_all(folder: Path) -> None:
    """For the time of a test, with those above it that are the test's."""
    while folder.stat().st_uid == os.getuid() and folder != folder.parent:
        folder.chmod(folder.stat().st_mode | 0o055)
        folder = folder.parent
