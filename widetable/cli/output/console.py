"""Where the command line writes: results to standard output, everything else to standard error.

Lines are never cut or wrapped: they may be read by programs. On a terminal some have a colour. Raises StorageError
when a stream takes no more, BrokenPipeError when nobody reads it.

Every line is flushed. Slower than a buffer, but a full disk or a closed pipe is known while the command still has an
exit code to give; and lines of both streams come in their order. Rows have a way of their own (`changes_output`).
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

from widetable.cli.input.refused_file import output_errors

_COLOURS: Final = {"error": "\033[31m", "warning": "\033[33m", "good": "\033[32m"}
_NO_COLOUR: Final = "\033[0m"
# Of file names and texts of others: they neither move the cursor nor begin a line. C0, DEL and C1; a tab
# and a line end are among them.
_CONTROLS: Final = {number: f"\\x{number:02x}" for number in (*range(0x20), *range(0x7F, 0xA0))}


def make_streams_whole() -> None:
    """Standard output that was closed (`>&-`) refuses what is written, as a full disk does; standard error takes it
    nowhere. Neither goes into the next file that is opened, which would get its number. Output without a buffer
    (PYTHONUNBUFFERED) gets one: of what a full disk or a closed pipe takes in part, the rest would be dropped without
    an error.
    """
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        # None: the number 0, 1 or 2 was closed when the process began.
        if stream is None:
            setattr(sys, name, _in_place_of(name))
        elif isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            whole = io.BufferedWriter(stream.detach())
            setattr(sys, name, io.TextIOWrapper(whole, stream.encoding, stream.errors))


def _in_place_of(name: str) -> TextIO:
    """Of a stream that was closed. A result that nobody gets is an error: the system refuses to write to what is open
    for reading.
    """
    number = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
    return open(number, "r" if name == "stdin" else "w")


def drop_refused_output() -> None:
    """What a stream has refused is not tried again, and reported again, when the process ends.

    Python flushes both once more as it ends, and makes exit code 120 of an error then: by that time
    the file number leads nowhere.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_text(text: str, stream: TextIO | None = None) -> None:
    """As it is, and at once: what is refused is known here. By default to standard output."""
    stream = stream or sys.stdout
    with output_errors("standard error" if stream is sys.stderr else "standard output"):
        stream.write(text)
        stream.flush()


def write_line(line: str, style: str = "plain", stream: TextIO | None = None) -> None:
    """One line. style: a key of `_COLOURS`, or plain."""
    stream = stream or sys.stdout
    text = _printable(line, stream)
    if style in _COLOURS and _takes_colours(stream):
        text = f"{_COLOURS[style]}{text}{_NO_COLOUR}"
    write_text(f"{text}\n", stream)


def write_json(value: Any) -> None:
    """A result for programs. What JSON does not have becomes text. ASCII, so that every stream takes it."""
    write_text(json.dumps(value, indent=2, default=str) + "\n")


def write_result(format: str, value: Any, lines: Iterable[str]) -> None:
    """What a command did. format: of `FORMATS`: value for programs, lines for people.

    lines may be made while they are written; for programs they are never made.
    """
    write_lines(format, value, ((line, "plain") for line in lines))


def write_lines(format: str, value: Any, lines: Iterable[tuple[str, str]]) -> None:
    """As `write_result`, of lines with their styles."""
    if format == "json":
        write_json(value)
        return
    for line, style in lines:
        write_line(line, style)


def write_error(error: Exception) -> None:
    """One line: what is wrong, and what to do. Line ends and runs of blanks in it become one blank each."""
    write_line(" ".join(f"{type(error).__name__}: {error}".split()), "error", sys.stderr)


def _printable(line: str, stream: TextIO) -> str:
    """What the stream cannot take, such as a file name that is no text, as backslashes and digits."""
    encoding = stream.encoding or "utf-8"
    return without_controls(line).encode(encoding, "backslashreplace").decode(encoding)


def without_controls(text: str) -> str:
    """What would move the cursor or begin a line, as backslashes and digits."""
    return text.translate(_CONTROLS)


def _takes_colours(stream: TextIO) -> bool:
    """A terminal whose user has not said otherwise (no-color.org)."""
    environment = os.environ
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
