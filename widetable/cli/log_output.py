"""The log of the package on standard error.

For commands that run on, maintain and join run:

    2026-11-27 04:15:29,871 INFO widetable: ..

Other commands have no log: what a user must know is in their result. There Python itself prints warnings of the
package, without a time.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Final

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@contextlib.contextmanager
def logged(level: int) -> Iterator[None]:
    """While the block runs, what the package logs goes to standard error.

    From this level on. Only the logger `widetable`, with what is below it. What it
    was set to before is put back, so that a test or a second command finds it as it was.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger = logging.getLogger("widetable")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
