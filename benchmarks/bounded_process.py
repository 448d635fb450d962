"""A program in a fresh process, which is killed when it takes too long or too much memory.

In: a Python module and its arguments or a command, a limit in seconds and one in bytes. Out: what it printed as the
JSON of its last line, and the peak memory of the process with all its descendants; or why it was stopped. Memory is
anonymous memory (RssAnon), looked at every 20 ms: mapped files are not counted, for they can be given back. Raises
ProcessFailed for a process that fails by itself, with the end of what it wrote to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from benchmarks.harness import ROOT

_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Bounds:
    """What a process may take, its descendants included."""

    seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class Finished:
    """A process that ended by itself. printed: its last line."""

    printed: dict[str, Any]
    peak_bytes: int


@dataclass(frozen=True)
class Exceeded:
    """A process that was killed at a bound, and what it had taken by then."""

    seconds: float
    peak_bytes: int

    def __str__(self) -> str:
        return f"not done after {self.seconds:.0f} s, {self.peak_bytes / 2**30:.1f} GiB"


class ProcessFailed(RuntimeError):
    """A process that ended by itself with an exit status that is not 0."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run_bounded(bounds: Bounds, module: str, *arguments: object) -> Finished | Exceeded:
    """Runs `python -m module arguments`."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return run_command_bounded(bounds, command, f"{module} {arguments[0]}")


def run_command_bounded(bounds: Bounds, command: Sequence[str], name: str) -> Finished | Exceeded:
    """Runs a command in a process group of its own. name: for the message when it fails."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            stopped, peak_bytes = _watch(process, bounds)
        finally:
            _kill_group(process)
        if stopped is not None:
            return stopped
        if process.returncode:
            said = _text(errors)[-4000:]
            raise ProcessFailed(f"{name} failed:\n{said}", process.returncode)
        return Finished(json.loads(_text(output).strip().splitlines()[-1]), peak_bytes)


def _watch(process: subprocess.Popen[bytes], bounds: Bounds) -> tuple[Exceeded | None, int]:
    """Waits for the end of the process, or for a bound; with it the peak of memory."""
    began, peak_bytes = time.monotonic(), 0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
            return None, peak_bytes
        peak_bytes = max(peak_bytes, sum(map(_anonymous_bytes, _tree(process.pid))))
        seconds = time.monotonic() - began
        if seconds > bounds.seconds or peak_bytes > bounds.memory_bytes:
            return Exceeded(seconds, peak_bytes), peak_bytes


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Also when the process has ended: workers that it started may not have."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tree(pid: int) -> Iterator[int]:
    """A process and all its descendants. Those that end meanwhile are left out."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as children:
                pids = children.read().split()
            for child in pids:
                yield from _tree(int(child))


def _anonymous_bytes(pid: int) -> int:
    """0 for a process that has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
