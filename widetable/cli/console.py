"""Where the command line writes: results to standard output, everything else to standard error.

Lines are never cut or wrapped: they may be read by programs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any, Final, TextIO

from rich.console import Console
from rich.text import Text

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Of standard error, and of who reads programs' output.
_STYLES: Final = {"error": "red", "warning": "yellow", "good": "green", "plain": ""}


def stand_in_for_closed_streams() -> None:
    """Output that was closed (`>&-`) goes nowhere; and not into the next file that is opened, which would get its
    number.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115


def tell(line: str, style: str = "plain") -> None:
    """One line of a result."""
    Console(file=sys.stdout).print(
        Text(_printable(line, sys.stdout), _STYLES[style]), soft_wrap=True
    )


def tell_json(value: Any) -> None:
    """A result for programs. What JSON does not have becomes text."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def tell_error(error: Exception) -> None:
    """One red line: what is wrong, and what to do."""
    line = _printable(" ".join(f"{type(error).__name__}: {error}".split()), sys.stderr)
    Console(file=sys.stderr).print(Text(line, _STYLES["error"]), soft_wrap=True)


def _printable(line: str, stream: TextIO) -> str:
    """What the stream cannot take, such as a file name that is no text, as backslashes and digits."""
    encoding = stream.encoding or "utf-8"
    return line.encode(encoding, "backslashreplace").decode(encoding)


@contextlib.contextmanager
def logged(level: int) -> Iterator[None]:
    """While the block runs, what the package logs goes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    logger = logging.getLogger("widetable")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
