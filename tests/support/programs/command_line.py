"""The command line, called in this process."""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass
from unittest.mock import patch

from widetable.cli.app import main
from widetable.kernels.jit import Kernel


@dataclass(frozen=True)
class Ran:
    exit_code: int
    stdout: str
    stderr: str


def run(*arguments: str) -> Ran:
    """As `widetable <arguments>`. What the command line raises is raised here, but the end of the process.

    A warm-up, which has a process of its own there, leaves neither its variables nor its tier of kernels behind.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with (
        patch.dict(os.environ),
        patch.object(Kernel, "interprets", Kernel.interprets),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            exit_code = main(arguments)
        except SystemExit as end:  # after help
            exit_code = int(end.code or 0)
    return Ran(exit_code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)  # flushes
    return stream.read()
