"""Whether a process has ended is seen by others, and never guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from widetable.commit.notes import process_identity
from widetable.commit.notes.process_identity import has_ended, this_process

SLEEPER = """
import sys, time
from widetable.commit.notes.process_identity import this_process
print(this_process(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True, env=environment
    )
    yield process
    process.kill()
    process.communicate()


def test_a_process_has_ended_once_it_is_killed(sleeper: subprocess.Popen[str]) -> None:
    assert sleeper.stdout is not None
    identity = sleeper.stdout.readline().strip()
    assert not has_ended(identity)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(identity), "it waits to be reaped"
    sleeper.wait()
    assert has_ended(identity)


def test_a_process_that_got_the_pid_of_another_is_not_it() -> None:
    mine = this_process()
    assert mine is not None
    assert not has_ended(mine)
    before_start, _, start_time = mine.rpartition("/")
    assert has_ended(f"{before_start}/{int(start_time) - 1}")


@pytest.mark.parametrize(
    "identity",
    [
        *("", "/", "//", "a/b/c/d", "another boot/pid:[1]/4194305/1"),
        *("{scope}/self/1", "{scope}/-1/1", "{scope}/99999999999999999999/1"),
    ],
)
def test_of_what_is_not_of_this_machine_nothing_is_known(identity: str) -> None:
    scope = (this_process() or "").rsplit("/", 2)[0]
    assert not has_ended(identity.format(scope=scope))


def test_a_process_that_proc_does_not_show_may_still_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sleeper: subprocess.Popen[str]
) -> None:
    """As where /proc shows the processes of the same user only."""
    assert sleeper.stdout is not None
    identity = sleeper.stdout.readline().strip()
    shown = tmp_path / "proc"
    (shown / "sys/kernel/random").mkdir(parents=True)
    (shown / "sys/kernel/random/boot_id").write_text(identity.split("/")[0] + "\n")
    (shown / "self/ns").mkdir(parents=True)
    (shown / "self/ns/pid").symlink_to(identity.split("/")[1])
    monkeypatch.setattr(process_identity, "_PROC", shown)
    assert not has_ended(identity)
    sleeper.kill()
    sleeper.wait()
    assert has_ended(identity)


def test_without_proc_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = this_process()
    assert mine is not None
    monkeypatch.setattr(process_identity, "_PROC", tmp_path)
    assert this_process() is None
    assert not has_ended(mine)
