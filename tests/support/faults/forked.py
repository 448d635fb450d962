"""Children of this process, forked."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable


def in_a_child(work: Callable[[], None]) -> int:
    """Run it in a forked process, which then ends without any goodbye. Its id; it ends with 0 if nothing was raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    finally:
        traceback.print_exc(file=sys.__stderr__)
        os._exit(1)
