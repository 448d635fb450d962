"""The log of the package on standard error.

The commands that run until they are stopped, maintain and join run, log:

    2026-11-27 04:15:29,871 INFO widetable: ..

Other commands have no log: their result has everything that a user must know. Their warnings are printed after the
result, without a time. If a command ends with an error, its warnings are not printed, because an error is one line and
warnings such as a failed clean-up follow from it. With --debug they are printed, too.
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


class BufferedWarnings(logging.Handler):
    """A handler that keeps the warnings of the package until the command ends."""

    _current: ClassVar[BufferedWarnings | None] = None

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    @classmethod
    def current(cls) -> BufferedWarnings | None:
        """Return the handler of the running command; None if its warnings are logged at once."""
        return cls._current

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        logger = logging.getLogger("widetable")
        logger.addHandler(self)
        BufferedWarnings._current = self
        try:
            yield
        finally:
            BufferedWarnings._current = None
            logger.removeHandler(self)

    def write(self) -> None:
        """Write the warnings to standard error, a line each, once. A failure to write them is ignored."""
        lines, self._lines = self._lines, []
        with contextlib.suppress(OSError, StorageError):
            for line in lines:
                write_line(line, stream=sys.stderr)


@contextlib.contextmanager
def logged(level: int) -> Iterator[None]:
    """Log to standard error while the block runs.

    level: the lowest level of messages. Warnings come at the end of a command that ends by itself. Only the logger
    `widetable` and those below it are affected; its level is restored after the block.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    warnings = BufferedWarnings.current()
    if warnings is not None:
        warnings.setFormatter(handler.formatter)
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
