"""Commands for an installation: warmup."""

from __future__ import annotations

import time

from widetable.cli.command import DONE
from widetable.cli.console import write_line
from widetable.warmup import warm_up


def warmup() -> int:
    """Prints how much there is, how long it took, and where the cache is."""
    start = time.monotonic()
    warmth = warm_up()
    seconds = time.monotonic() - start
    write_line(f"{warmth.kernels} kernels")
    write_line(f"  {'compiled':<10}{warmth.compiled} times in {seconds:.1f} s")
    for directory in warmth.directories:
        write_line(f"  {'cache':<10}{directory}")
    return DONE
