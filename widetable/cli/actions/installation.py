"""Commands for an installation: warmup."""

from __future__ import annotations

import time
from dataclasses import asdict

from widetable.cli.command import DONE
from widetable.cli.output.console import write_result
from widetable.messages.counted import counted
from widetable.warmup import warm_up


def warmup(format: str) -> int:
    """Print the number of kernels, the time, and the directory of the cache.

    "compiled 0 times" means that the cache was warm. Call it in a process of its own: afterwards the process interprets
    no kernel any more (`warm_up`).
    """
    start = time.monotonic()
    warmth = warm_up()
    seconds = time.monotonic() - start
    lines = [
        counted(warmth.kernels, "kernel"),
        f"  {'compiled':<10}{counted(warmth.compiled, 'time')} in {seconds:.1f} s",
        *(f"  {'cache':<10}{directory}" for directory in warmth.directories),
    ]
    write_result(format, {**asdict(warmth), "seconds": seconds}, lines)
    return DONE
