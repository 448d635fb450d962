"""The process of the command: interrupts before there is a command."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_INTERRUPTED = """
import os, signal, sys
{before}
from widetable.cli import program

def interrupted(name):
    os.kill(os.getpid(), signal.SIGINT)
    signal.sigtimedwait([], 1)
    class App:
        main = staticmethod(lambda: 7)
    return App

program.import_module = interrupted
sys.exit(program.run())
"""


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("signal.signal(signal.SIGINT, signal.default_int_handler)", -signal.SIGINT),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 7),
    ],
)
def test_an_interrupt_while_modules_are_imported_says_nothing(before: str, code: int) -> None:
    """A shell shows 130. One that the shell has ignored, as of a job in the background, stays ignored."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED.format(before=before)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
