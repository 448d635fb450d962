"""How long tests wait for what must come. Nothing is measured by it: it ends a test that hangs, also on a machine that
is many times slower than any that the tests were written on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 1200.0
# Times what a look took.
_REST: Final = 5.0
_MOST_REST_SECONDS: Final = 0.3


def wait_for(condition: Callable[[], bool]) -> None:
    """Look again and again until it holds. A look that costs much is taken less often, so that what is waited for has
    the machine. Raises AssertionError when the patience is at its end.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < end, "it did not come to pass"
        time.sleep(0.01 + min(_REST * (now - began), _MOST_REST_SECONDS))
