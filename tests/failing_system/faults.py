"""Faults of the operating system: calls on files below a directory fail, stop half way, or end the process there.

`build_shim` compiles `shim.c` with the system's cc; a process that is started with it in LD_PRELOAD can `arm` itself.
Raises LookupError where there is no compiler, subprocess.CalledProcessError where it fails.
"""

from __future__ import annotations

import ctypes
import errno
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")


class Call(IntEnum):
    """OPEN: to read. CREATE: to write. UNLINK: of files and directories. LIST: opendir."""

    OPEN = 0
    CREATE = 1
    READ = 2
    WRITE = 3
    FSYNC = 4
    LINK = 5
    RENAME = 6
    UNLINK = 7
    MKDIR = 8
    LIST = 9


class Mode(IntEnum):
    """HALF: a short write. TORN: half a write, then the end of the process."""

    ONCE = 0
    ON = 1
    KILL_BEFORE = 2
    KILL_AFTER = 3
    HALF = 4
    TORN = 5

    @property
    def kills(self) -> bool:
        return self in (Mode.KILL_BEFORE, Mode.KILL_AFTER, Mode.TORN)


# What these calls fail with on real systems.
ERRORS: Final[Mapping[Call, tuple[int, ...]]] = {
    Call.OPEN: (errno.EIO, errno.EMFILE, errno.EINTR),
    Call.CREATE: (errno.ENOSPC, errno.EIO, errno.EINTR),
    Call.READ: (errno.EIO, errno.EINTR),
    Call.WRITE: (errno.ENOSPC, errno.EIO, errno.EINTR),
    Call.FSYNC: (errno.EIO, errno.ENOSPC),
    Call.LINK: (errno.ENOSPC, errno.EIO),
    Call.RENAME: (errno.ENOSPC, errno.EIO),
    Call.UNLINK: (errno.EIO, errno.EROFS),
    Call.MKDIR: (errno.ENOSPC, errno.EIO),
    Call.LIST: (errno.EIO,),
}


@dataclass(frozen=True)
class Fault:
    """number: which of the calls, from 1 on; with ON it and all behind it. error: of ONCE and ON."""

    call: Call
    mode: Mode
    number: int
    error: int = 0

    def __str__(self) -> str:
        what = errno.errorcode.get(self.error, "")
        return f"{self.call.name} {self.number} {self.mode.name} {what}".strip()


def faults_of(call: Call, number: int) -> list[Fault]:
    """All that may happen at this call."""
    failing = [
        Fault(call, mode, number, error)
        for error in ERRORS[call]
        for mode in (Mode.ONCE, Mode.ON)
        if (error, mode) != (errno.EINTR, Mode.ON)  # nobody is interrupted for ever
    ]
    modes = [Mode.KILL_BEFORE, Mode.KILL_AFTER]
    if call is Call.WRITE:
        modes += [Mode.HALF, Mode.TORN]
    return [*failing, *(Fault(call, mode, number) for mode in modes)]


def build_shim(folder: Path) -> Path:
    """The library, for LD_PRELOAD."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise LookupError("no C compiler: neither cc nor gcc is in PATH")
    shim = folder / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", shim, SOURCE, "-ldl"],
        check=True,
        capture_output=True,
    )
    return shim


class Shim:
    """The shim of this process; OSError when it was started without."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        try:
            self._arm, self._disarm = library.fault_arm, library.fault_disarm
            self._seen, self._met = library.fault_seen, library.fault_met
        except AttributeError:
            raise OSError(errno.ENOSYS, "not started with the shim in LD_PRELOAD") from None
        self._arm.argtypes = [ctypes.c_char_p, *[ctypes.c_int] * 3, ctypes.c_long]
        self._seen.restype = self._met.restype = ctypes.c_long

    def arm(self, folder: str, fault: Fault | None) -> None:
        """From here on calls on files below the folder count; None: nothing happens to them."""
        fault = fault or Fault(Call.OPEN, Mode.ONCE, 0)
        below = folder.rstrip("/").encode() + b"/"
        self._arm(below, fault.call, fault.mode, fault.error, fault.number)

    def disarm(self) -> None:
        self._disarm()

    @property
    def met(self) -> int:
        """How many calls the fault was for."""
        return int(self._met())

    def seen(self) -> dict[str, int]:
        return {call.name: int(self._seen(int(call))) for call in Call}
