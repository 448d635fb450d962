"""SIGTERM and SIGINT ask a loop to stop; a second one interrupts it.

    first     the event is set: the loop ends its current compaction or round, and then itself; exit code 0
    second    KeyboardInterrupt, wherever the main thread is: exit code 130

Python runs handlers in the main thread, between two instructions, so a wait for the event in it ends.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Return an event that the first signal sets while the block runs; the earlier handlers are restored after it.

    It works only in the main thread: elsewhere Python raises ValueError.
    """
    stop = threading.Event()

    # It only sets an event, because the interrupted code may hold any lock.
    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
