"""Where a scenario is lived: under another zone, without a temporary directory, in an object store, in a new process
after each step. Or where its readers run: on a disk that is read-only, in a process of their own without assertions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.object_stores import s3_server
from tests.pairs.reading import Request, as_json, read
from tests.support.faults.forked import in_a_child
from tests.support.faults.read_only_disk import make_read_only
from widetable.storage.remote import store_client

OTHER_ZONE: Final = "Australia/Lord_Howe"  # half an hour of daylight saving
_ROOT: Final = Path(__file__).resolve().parents[2]


@contextmanager
def of_life(environment: str, folder: Path, server: Callable[[], int]) -> Iterator[str]:
    """All steps run so: writers, compactions, readers. Gives the warehouse."""
    warehouse = str(folder)
    with pytest.MonkeyPatch.context() as patch:
        if environment == "object store":
            for name, value in s3_server.environment(server()).items():
                patch.setenv(name, value)
            patch.setattr(store_client, "_CLIENTS", {})
            patch.setattr(store_client, "_USERS", {})
            warehouse = f"s3://{s3_server.BUCKET}/{uuid.uuid4().hex}"
        if environment == "another zone":
            patch.setenv("TZ", OTHER_ZONE)
            time.tzset()
        if environment == "no temporary directory":
            patch.setattr(tempfile, "gettempdir", _none)
        yield warehouse
    time.tzset()


def read_in(environment: str, request: Request) -> list[str]:
    """The rows, by a reader in this environment."""
    if environment == "optimised":
        return _by_a_process(request)
    with pytest.MonkeyPatch.context() as patch:
        if environment == "read-only disk":
            make_read_only(patch)
        return read(request)


def in_a_new_process(work: Callable[[], None]) -> None:
    """A child, which shares no cache, handle or thread with this one, and what is known in the test it knows."""
    _, status = os.waitpid(in_a_child(work), 0)
    assert status == 0, "the error is in what the process wrote to standard error"


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
