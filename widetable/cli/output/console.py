"""The output of the command line: results go to standard output, everything else to standard error.

Lines are never cut or wrapped, because programs may read them. On a terminal some have a colour. Raises StorageError if
a stream cannot be written, BrokenPipeError if nobody reads it.

Every line is flushed. That is slower than a buffer, but an error of a full disk or a closed pipe comes while the
command can still return an exit code, and lines of both streams stay in order. `changes_output` writes rows.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

from widetable.cli.input.checked_output import output_errors

_COLOURS: Final = {"error": "\033[31m", "warning": "\033[33m", "good": "\033[32m"}
_NO_COLOUR: Final = "\033[0m"
# Control characters (C0, DEL and C1, with tabs and line ends) in file names and foreign texts are printed as digits, so
# that they cannot move the cursor or begin a line.
_CONTROLS: Final = {number: f"\\x{number:02x}" for number in (*range(0x20), *range(0x7F, 0xA0))}


def make_streams_whole() -> None:
    """Replace closed standard streams, and add a buffer to unbuffered ones.

    Writing to standard output that was closed (`>&-`) is an error, as on a full disk; closed standard error drops its
    text. Otherwise the next opened file would get the stream's number and its text. An unbuffered stream
    (PYTHONUNBUFFERED) would drop the rest of a partial write without an error.
    """
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        # None: the number 0, 1 or 2 was closed when the process began.
        if stream is None:
            setattr(sys, name, _replacement(name))
        elif isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            whole = io.BufferedWriter(stream.detach())
            setattr(sys, name, io.TextIOWrapper(whole, stream.encoding, stream.errors))


def _replacement(name: str) -> TextIO:
    """Return the replacement of a closed stream.

    Standard output is opened for reading, so that the system refuses writes: a result that nobody gets is an error.
    """
    number = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
    return open(number, "r" if name == "stdin" else "w")


def drop_refused_output() -> None:
    """Redirect a stream that cannot be flushed to nowhere, so that its error is not reported twice.

    Python flushes both streams once more at its end, and turns an error into exit code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_text(text: str, stream: TextIO | None = None) -> None:
    """Write the text unchanged and flush it. stream: by default standard output."""
    stream = stream or sys.stdout
    with output_errors("standard error" if stream is sys.stderr else "standard output"):
        stream.write(text)
        stream.flush()


def write_line(line: str, style: str = "plain", stream: TextIO | None = None) -> None:
    """Write one line. style: a key of `_COLOURS`, or plain."""
    stream = stream or sys.stdout
    text = _printable(line, stream)
    if style in _COLOURS and _takes_colours(stream):
        text = f"{_COLOURS[style]}{text}{_NO_COLOUR}"
    write_text(f"{text}\n", stream)


def write_json(value: Any) -> None:
    """Write a result for programs, in ASCII, which every stream takes. Values that JSON lacks become text."""
    write_text(json.dumps(value, indent=2, default=str) + "\n")


def write_result(format: str, value: Any, lines: Iterable[str]) -> None:
    """Write the result of a command: with the format `json` the value, otherwise the lines.

    lines may be an iterator; with `json` it is not used.
    """
    write_lines(format, value, ((line, "plain") for line in lines))


def write_lines(format: str, value: Any, lines: Iterable[tuple[str, str]]) -> None:
    """Write the result of a command like `write_result`; the lines have styles."""
    if format == "json":
        write_json(value)
        return
    for line, style in lines:
        write_line(line, style)


def write_error(error: Exception) -> None:
    """Write an error as one line. Line ends and runs of blanks in it become one blank each."""
    write_line(" ".join(f"{type(error).__name__}: {error}".split()), "error", sys.stderr)


def _printable(line: str, stream: TextIO) -> str:
    """Return the line with backslashes and digits for characters that the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    return without_controls(line).encode(encoding, "backslashreplace").decode(encoding)


def without_controls(text: str) -> str:
    """Return the text with backslashes and digits for control characters."""
    return text.translate(_CONTROLS)


def _takes_colours(stream: TextIO) -> bool:
    """Return whether the stream is a terminal, and its user has not switched colours off (no-color.org)."""
    environment = os.environ
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
