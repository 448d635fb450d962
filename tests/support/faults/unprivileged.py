"""Child processes that permissions hold for, also where tests run as root, whom they do not stop otherwise."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


def drop_override() -> None:
    """For `preexec_fn`: what is executed may not write where its user may not, root or not. Reading stays."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and libc.prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def without_privileges() -> Callable[[], None]:
    """`drop_override`; skips a test where root cannot let go of anything."""
    child = os.fork()
    if child == 0:
        try:
            drop_override()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        pytest.skip("root may not drop capabilities here")
    return drop_override


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing comes or goes in the folder meanwhile, nor in those below it."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    folders = [path for path in folders if not path.is_symlink()]
    for path in folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path in folders:
            path.chmod(0o755)
