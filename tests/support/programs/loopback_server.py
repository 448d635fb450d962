"""A server of its own directory for the time of a block: made, waited for, killed and removed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from tests.support.faults.patience import wait_for


class LoopbackServer(Protocol):
    """A started server. is_up: whether it answers; raises if it has ended."""

    process: subprocess.Popen[bytes]

    def is_up(self) -> bool: ...


ServerT = TypeVar("ServerT", bound=LoopbackServer)


@contextmanager
def loopback_server(make: Callable[[Path], ServerT], name: str) -> Iterator[ServerT]:
    """Make a server in a new directory, wait until it is up, and stop and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix=f"widetable-{name}-", dir="/tmp"))
    try:
        server = make(root)
        try:
            wait_for(server.is_up)
            yield server
        finally:
            server.process.kill()
            server.process.wait()
    finally:
        shutil.rmtree(root, ignore_errors=True)
