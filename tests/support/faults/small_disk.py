"""A disk of a few MiB, to be filled to the last byte: a tmpfs that this process mounts, or one in a user namespace of a
helper process, whose files are reached through /proc.

`small_disk` is a fixture; where the system allows neither, the test is skipped and says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZE_MIB = 8


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty directory on a disk of SIZE_MIB."""
    place = tmp_path / "small-disk"
    place.mkdir()
    with contextlib.ExitStack() as stack:
        for way in (_mounted, _in_a_namespace):
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                yield stack.enter_context(way(place))
                return
        pytest.skip("neither mount nor unshare -Urm is permitted here: no small disk")


@contextlib.contextmanager
def _mounted(place: Path) -> Iterator[Path]:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "none", place],
        check=True,
        capture_output=True,
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextlib.contextmanager
def _in_a_namespace(place: Path) -> Iterator[Path]:
    script = f'mount -t tmpfs -o size={SIZE_MIB}m none "$1" && echo mounted && cat'
    with subprocess.Popen(
        ["unshare", "-Urm", "sh", "-c", script, "sh", place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            raise PermissionError(errno.EPERM, "no mount in a user namespace")
        yield Path(f"/proc/{holder.pid}/root{place}")
        assert holder.stdin is not None
        holder.stdin.close()


def fill(disk: Path) -> Path:
    """A file that takes all room that is left."""
    path = disk / "filler"
    with path.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
    assert is_full(disk)
    return path


def is_full(disk: Path) -> bool:
    """Whether not even one byte has room."""
    probe = disk / "probe"
    try:
        probe.write_bytes(b"x")
    except OSError as cause:
        return cause.errno == errno.ENOSPC
    else:
        return False
    finally:
        probe.unlink(missing_ok=True)


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize
