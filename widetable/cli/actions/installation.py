"""Commands for an installation: warmup."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from widetable.catalog import Catalog
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
    warmth = warm_up(_exercises())
    seconds = time.monotonic() - start
    lines = [
        counted(warmth.kernels, "kernel"),
        f"  {'compiled':<10}{counted(warmth.compiled, 'time')} in {seconds:.1f} s",
        *(f"  {'cache':<10}{directory}" for directory in warmth.directories),
    ]
    write_result(format, {**asdict(warmth), "seconds": seconds}, lines)
    return DONE


# Other packages of this distribution have kernels of their own.
def _exercises() -> Sequence[Callable[[Catalog], None]]:
    if importlib.util.find_spec("widetable_cdc") is None:
        return ()
    exercise: Callable[[Catalog], None] = importlib.import_module("widetable_cdc.warmup").exercise
    return (exercise,)
