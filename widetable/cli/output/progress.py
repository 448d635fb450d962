"""Prints on a terminal that a command is still at work, and how much it has read and written.

It prints whole lines on standard error, after 1, 3, 10 and 30 seconds, then each minute. No line is overwritten, so
results, log lines and a copied screen stay intact. If standard error is no terminal, it prints nothing. Raises nothing.

    compact: 10 s, 1.2 GiB read, 310.0 MiB written

A thread prints the lines. The end of the block waits for it, so no line follows the result. It is a daemon, so it does
not keep a process alive that ends otherwise.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Final, TextIO

from widetable.cli.output.console import write_line
from widetable.errors import StorageError
from widetable.format.human_units import duration_text, size_text

_FIRST_SECONDS: Final = (1, 3, 10, 30)
_EVERY_SECONDS: Final = 60


def line_seconds() -> Iterator[int]:
    """Return the times of the lines, in seconds from the start, without end: 1, 3, 10, 30, 60, 120, 180, .."""
    return chain(_FIRST_SECONDS, count(_EVERY_SECONDS, _EVERY_SECONDS))


@contextlib.contextmanager
def progress(
    command: str,
    stream: TextIO | None = None,
    ended: Callable[[float], bool] | None = None,
) -> Iterator[None]:
    """Print progress while the block runs. ended: waits for seconds, and returns True once the block has ended."""
    to = stream or sys.stderr
    if not to.isatty():
        yield
        return
    done = threading.Event()
    arguments = (command, to, ended or done.wait)
    thread = threading.Thread(target=_say, args=arguments, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# Times of lines are fixed, so that a late line does not delay the next ones. Bytes count from the start of the block,
# for the whole process: its imports do not count.
def _say(command: str, stream: TextIO, ended: Callable[[float], bool]) -> None:
    started, before = time.monotonic(), _moved_bytes()
    said_at_seconds = 0
    for at_seconds in line_seconds():
        if ended(at_seconds - said_at_seconds):
            return
        said_at_seconds = at_seconds
        elapsed_millis = max(at_seconds, int(time.monotonic() - started)) * 1000
        text = f"{command}: {duration_text(elapsed_millis)}"
        if before is not None and (now := _moved_bytes()) is not None:
            read, written = (after - first for after, first in zip(now, before, strict=True))
            text += f", {size_text(read)} read, {size_text(written)} written"
        with contextlib.suppress(OSError, ValueError, StorageError):  # the terminal was closed
            write_line(text, stream=stream)


def _moved_bytes() -> tuple[int, int] | None:
    """Return the bytes that this process has read and written; None if the system does not count them.

    Linux counts system calls, also those that its caches answer; reads of mapped files, such as lookup caches, do not
    count.
    """
    try:
        with open("/proc/self/io") as file:
            facts = dict(line.split(": ") for line in file)
        return int(facts["rchar"]), int(facts["wchar"])
    except (OSError, ValueError, KeyError):
        return None
