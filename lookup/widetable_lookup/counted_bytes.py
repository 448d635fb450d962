"""The space that the caches of a host take, kept as one number: there may be thousands of caches, and each commit
builds one for every bucket that it touches. It lies in the lock file, and is read and written only under the lock.

    account = <seconds of CLOCK_MONOTONIC when all were counted> " " <bytes> " "* "\n"      decimal; 48 bytes

The bytes are never fewer than complete caches take: each cache is added before it is put in place, and removed caches
are not subtracted. So the number proves that there is room; if it does not, all caches are counted. An old or
unreadable account does not count: only a count finds expired caches and the remains of dead processes.

In: the open lock file. Out: bytes. Raises nothing: an account that cannot be written is removed.

    all counted: 60 of 100         account 60
    30 granted before writing      account 90      there is certainly room, nothing is counted
    30 more as it takes its place  120 > 100       counted: 90, which has room; account 90

So a cache may be in the account twice until the next count, and never less than once.
CLOCK_MONOTONIC is one for all processes of a host.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Final, NamedTuple

_COUNT_SECONDS: Final = 60.0
_ACCOUNT_BYTES: Final = 48


class CountedBytes(NamedTuple):
    """The content of an account."""

    counted_at_seconds: float
    held_bytes: int


def read_account(lock: int) -> CountedBytes | None:
    """Return the account; None: all caches have to be counted."""
    try:
        seconds, held_bytes = os.pread(lock, _ACCOUNT_BYTES, 0).split()
        account = CountedBytes(float(seconds), int(held_bytes))
    except (OSError, ValueError):
        return None
    age_seconds = time.monotonic() - account.counted_at_seconds
    return account if 0 <= age_seconds <= _COUNT_SECONDS and account.held_bytes >= 0 else None


def write_account(lock: int, account: CountedBytes) -> None:
    """Replace the account."""
    text = f"{account.counted_at_seconds:.3f} {account.held_bytes}"
    try:
        os.pwrite(lock, text.ljust(_ACCOUNT_BYTES - 1).encode() + b"\n", 0)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(lock, 0)
