"""Which allocator Arrow's buffers of this process come from.

Arrow's default on Linux, mimalloc, gives large buffers back to the kernel and takes them anew, which zeroes every page
again. Merging takes and frees large buffers in several threads all the time, and so spent a third of its CPU time in
the kernel; with the allocator of the C library it is less (docs/decisions/0012). What the user chose, by Arrow's
environment variable or a call, is left alone.
"""

from __future__ import annotations

import os
import sys

import pyarrow as pa


def is_better_replaced(platform: str, backend: str, chosen: str | None) -> bool:
    """Whether buffers had better come from the C library. backend: of the pool in use; chosen: Arrow's environment
    variable. Pure.
    """
    return platform == "linux" and backend == "mimalloc" and not chosen


def prefer_system_pool() -> None:
    """Let later buffers of this process come from the C library's allocator, where that is better.

    Called at the start of writes and compactions, not at import: a program that only imports the
    package keeps its pool. Buffers that are there stay in the pool that they are from.
    """
    chosen = os.environ.get("ARROW_DEFAULT_MEMORY_POOL")
    if is_better_replaced(sys.platform, pa.default_memory_pool().backend_name, chosen):
        pa.set_memory_pool(pa.system_memory_pool())


def release_unused_memory() -> None:
    """Give back what the allocator keeps of freed buffers: the C library keeps heaps whose ends are in use. Takes
    some milliseconds, so it is for ends of long work.
    """
    pa.default_memory_pool().release_unused()
