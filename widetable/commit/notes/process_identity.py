"""The identity of a process, as a text by which other processes of the machine see whether it has ended.

    identity = boot id "/" pid namespace "/" pid "/" start time in clock ticks after the boot      (proc(5))

If a pid is reused, the start time differs. A process of another machine, boot or container has another boot id or pid
namespace, and whether it has ended is not known. Without /proc, `this_process` is None and `has_ended` is never true.
Raises nothing.

    identity of                                    has_ended    would_be_seen
    a process that runs here                       False        True
    one that ran here: no such pid, a zombie,      True         True
      or its pid with another start time
    one of another machine, boot or container      False        False
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
# Fields of /proc/PID/stat after the name, which is in parentheses and may hold any character.
_STATE, _START_TIME = 0, 19
_DEAD_STATES: Final = frozenset("ZXx")


def this_process() -> str | None:
    """Return the identity of the calling process; None without /proc."""
    scope, start_time = _scope(), _start_time(os.getpid())
    return f"{scope}/{os.getpid()}/{start_time}" if scope and start_time else None


def has_ended(identity: str) -> bool:
    """Return whether a process surely ran here and has ended. A process that waits to be reaped has ended."""
    scope, pid, start_time = _parts(identity)
    if not pid.isdecimal() or scope != _scope():
        return False
    current = _start_time(int(pid))
    return current != start_time if current is not None else not _is_hidden(int(pid))


def would_be_seen(identity: str) -> bool:
    """Return whether this is a process of this machine, boot and pid namespace, so that its end would be seen here."""
    return _parts(identity)[0] == _scope() is not None


def _parts(identity: str) -> tuple[str, str, str]:
    """Split an identity into (scope, pid, start time); all are empty for another text."""
    parts = identity.rsplit("/", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", "")


def _scope() -> str | None:
    """Return the boot and pid namespace, in which a pid and its start time identify one process for ever."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return None


def _start_time(pid: int) -> str | None:
    """Return the start time of a process; None if /proc shows no such process, "" if only its exit code is left."""
    try:
        line = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = line.rpartition(")")[2].split()
    return "" if fields[_STATE] in _DEAD_STATES else fields[_START_TIME]


def _is_hidden(pid: int) -> bool:
    """Return whether a process exists although /proc does not show it: it may be another user's (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # no permission, or no valid pid: not known
        return True
    return True
