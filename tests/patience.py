"""How long tests wait for what must come. Nothing is measured by it: it ends a test that hangs, also on a machine that
is many times slower than any that the tests were written on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 1800.0


def wait_for(condition: Callable[[], bool]) -> None:
    """Look again and again until it holds. Raises AssertionError when the patience is at its end."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)
