"""What the caches of a host take, known without looking at each: there may be thousands, and each commit builds one for
every bucket that it touches. It lies in the lock file, and only who holds the lock reads or writes it.

    account = <seconds of CLOCK_MONOTONIC when all were counted> " " <bytes> " "* "\n"      decimal; 48 bytes

The bytes are never fewer than caches in their places take: each is added before it gets there, what goes is not taken
off. So they say when there is room for sure, and whoever finds none counts all anew. An account that is old, or that
cannot be read, is none: what expires or is left by dead processes is found by counting.

In: the open lock file. Out: bytes. Raises nothing: who cannot write it takes it away.

    all counted: 60 of 100         account 60
    30 granted before writing      account 90      there is room for sure, nothing is looked at
    30 more as it takes its place  120 > 100       counted anew: 90, which has room; account 90

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
    """What an account says."""

    counted_at_seconds: float
    held_bytes: int


def read_account(lock: int) -> CountedBytes | None:
    """None: all has to be counted."""
    try:
        seconds, held_bytes = os.pread(lock, _ACCOUNT_BYTES, 0).split()
        account = CountedBytes(float(seconds), int(held_bytes))
    except (OSError, ValueError):
        return None
    age_seconds = time.monotonic() - account.counted_at_seconds
    return account if 0 <= age_seconds <= _COUNT_SECONDS and account.held_bytes >= 0 else None


def write_account(lock: int, account: CountedBytes) -> None:
    """In place of what is there."""
    text = f"{account.counted_at_seconds:.3f} {account.held_bytes}"
    try:
        os.pwrite(lock, text.ljust(_ACCOUNT_BYTES - 1).encode() + b"\n", 0)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(lock, 0)
