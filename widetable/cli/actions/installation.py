"""Commands for an installation: warmup."""

from __future__ import annotations

import time
from dataclasses import asdict

from widetable.cli.command import DONE
from widetable.cli.output.console import write_result
from widetable.messages.counted import counted
from widetable.warmup import warm_up


def warmup(format: str) -> int:
    """Prints how much there is, how long it took, and where the cache is.

    "compiled 0 times" says that the cache was warm. For a process of its own: afterwards this one
    interprets no kernel any more (`warm_up`).
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
