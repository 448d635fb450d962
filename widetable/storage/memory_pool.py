"""Chooses the allocator of Arrow's buffers in this process.

Arrow's default on Linux, mimalloc, returns large buffers to the kernel and allocates them again, which zeroes every
page again. Merging allocates and frees large buffers in several threads all the time, and so spent a third of its CPU
time in the kernel; with the allocator of the C library it spends less (docs/decisions/0012). The choice of the user, by
Arrow's environment variable or by a call, is respected.
"""

from __future__ import annotations

import os
import sys

import pyarrow as pa


def is_better_replaced(platform: str, backend: str, chosen: str | None) -> bool:
    """Return whether the allocator of the C library is better. backend: that of the pool in use; chosen: the value of
    Arrow's environment variable. Pure.
    """
    return platform == "linux" and backend == "mimalloc" and not chosen


def prefer_system_pool() -> None:
    """Use the C library's allocator for new buffers of this process, where that is better.

    Called at the start of writes and compactions, not at import: a program that only imports the
    package keeps its pool. Existing buffers stay in the pool that allocated them.
    """
    chosen = os.environ.get("ARROW_DEFAULT_MEMORY_POOL")
    if is_better_replaced(sys.platform, pa.default_memory_pool().backend_name, chosen):
        pa.set_memory_pool(pa.system_memory_pool())


def release_unused_memory() -> None:
    """Return freed memory to the system: the C library keeps heaps whose ends are in use. It takes some milliseconds,
    so call it at the end of long work.
    """
    pa.default_memory_pool().release_unused()
