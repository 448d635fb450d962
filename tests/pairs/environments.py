"""Where the readers of a scenario run: in this process under another zone, without a temporary directory or on a disk
that is read-only; or in a process of their own, without assertions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.pairs.reading import Request, as_json, read
from tests.read_only_disk import make_read_only

_ZONE: Final = "Australia/Lord_Howe"  # half an hour of daylight saving
_ROOT: Final = Path(__file__).resolve().parents[2]


@contextmanager
def of_life(environment: str) -> Iterator[None]:
    """All steps run so: writers, compactions, readers."""
    with pytest.MonkeyPatch.context() as patch:
        if environment == "another zone":
            patch.setenv("TZ", _ZONE)
            time.tzset()
        if environment == "no temporary directory":
            patch.setattr(tempfile, "gettempdir", _none)
        yield
    time.tzset()


def read_in(environment: str, request: Request) -> list[str]:
    """The rows, by a reader in this environment."""
    if environment == "optimised":
        return _by_a_process(request)
    with pytest.MonkeyPatch.context() as patch:
        if environment == "read-only disk":
            make_read_only(patch)
        return read(request)


def _none() -> NoReturn:
    raise FileNotFoundError(2, "No usable temporary directory found")


def _by_a_process(request: Request) -> list[str]:
    """Without assertions and docstrings: -OO."""
    answer = subprocess.run(
        [sys.executable, "-OO", "-m", "tests.pairs.reading"],
        input=as_json(request),
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    found: list[str] = json.loads(answer.stdout)
    return found
