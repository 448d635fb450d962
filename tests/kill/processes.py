"""Real processes of the kill tests, forked from a server that has imported what their scripts import: each starts in
milliseconds where Python and its packages take more than a second. They are killed as any other process is.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

SCRIPTS = (
    "writer",
    "compactor",
    "reader",
    "rescaler",
    "expirer",
    "widener",
    "joiner",
    "bank_writer",
    "barrier_program",
    "overtaken_writer",
    "append_program",
    "postponed_program",
)

# What a life would import only when it gets there.
_IMPORTED_LATE = ("pandas", "pyarrow.parquet", "widetable_lookup.host_caches")


def start(
    script: str,
    arguments: Sequence[str],
    out: Path,
    environment: Mapping[str, str] | None = None,
) -> BaseProcess:
    """Run `main()` of tests/kill/programs/SCRIPT.py with these arguments. out: where it prints, behind what is there.

    Its `exitcode` is None while it runs, and -9 after a kill.
    """
    assert script in SCRIPTS
    context = get_context("forkserver")
    context.set_forkserver_preload(
        [*(f"tests.kill.programs.{name}" for name in SCRIPTS), *_IMPORTED_LATE]
    )
    process = context.Process(
        target=_run, args=(script, list(arguments), str(out), dict(environment or {}))
    )
    process.start()
    return process


def _run(script: str, arguments: list[str], out: str, environment: dict[str, str]) -> None:
    file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for standard in (1, 2):
        os.dup2(file, standard)
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    importlib.import_module(f"tests.kill.programs.{script}").main()
