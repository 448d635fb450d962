"""Rivals of Python, in virtual environments of their own in the user's cache: they want other versions than we do.

Raises RivalAbsent where they cannot be had.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.rival import RivalAbsent, cache_directory

_INSTALL_SECONDS = 900


def rival_python(name: str, packages: Sequence[str]) -> str:
    """The interpreter of an environment with these packages, which is made if it is not there."""
    folder = cache_directory() / "-".join([name, *packages]).replace("==", "-")
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *packages],
        ):
            try:
                subprocess.run(command, capture_output=True, check=True, timeout=_INSTALL_SECONDS)
            except (OSError, subprocess.SubprocessError) as failed:
                raise RivalAbsent(f"{' '.join(command[1:4])} failed: {failed}") from failed
        (folder / "complete").touch()
    return str(python)


class RivalProcess:
    """A program that answers each line with a line of JSON. Close it with `with`."""

    def __init__(self, python: str, program: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> RivalProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
