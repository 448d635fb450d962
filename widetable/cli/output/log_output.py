"""The log of the package on standard error.

For commands that run on, maintain and join run:

    2026-11-27 04:15:29,871 INFO widetable: ..

Other commands have no log: what a user must know is in their result. Their warnings are printed behind it, without a
time. Beside an error there are none, nor of a command that logs but ends by itself: what else a disk refused, such as
to clean up, follows from it, and an error is one line. With --debug they are printed, too.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import ClassVar, Final

from widetable.cli.output.console import write_line
from widetable.errors import StorageError

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class HeldWarnings(logging.Handler):
    """Keeps what the package warns of until it is known how a command ends."""

    _current: ClassVar[HeldWarnings | None] = None

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    @classmethod
    def current(cls) -> HeldWarnings | None:
        """Of the command that runs; None for one that runs on, whose warnings are printed at once."""
        return cls._current

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        logger = logging.getLogger("widetable")
        logger.addHandler(self)
        HeldWarnings._current = self
        try:
            yield
        finally:
            HeldWarnings._current = None
            logger.removeHandler(self)

    def write(self) -> None:
        """To standard error, a line each, once. What cannot be written there makes no error of a command."""
        lines, self._lines = self._lines, []
        with contextlib.suppress(OSError, StorageError):
            for line in lines:
                write_line(line, stream=sys.stderr)


@contextlib.contextmanager
def logged(level: int) -> Iterator[None]:
    """While the block runs, what the package logs goes to standard error.

    From this level on; warnings when the command ends, if it does so by itself. Only the logger `widetable`, with what
    is below it. What it was set to before is put back, so that a test or a second command finds it as it was.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    held = HeldWarnings.current()
    if held is not None:
        held.setFormatter(handler.formatter)
        handler.addFilter(lambda record: record.levelno < logging.WARNING)
    logger = logging.getLogger("widetable")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
