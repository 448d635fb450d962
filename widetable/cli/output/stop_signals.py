"""SIGTERM and SIGINT ask a loop to stop; a second one interrupts it.

    first     the event is set: the loop ends what it is at, a compaction, a round, and then itself; exit code 0
    second    KeyboardInterrupt, wherever the main thread is: exit code 130

Python runs handlers in the main thread, between two of its instructions, so one that waits for the event wakes up.
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
    """An event that the first signal sets, while the block runs. Only in the main thread: elsewhere Python raises
    ValueError. Handlers that were there before come back.
    """
    stop = threading.Event()

    # It sets an event and no more: who is interrupted may hold any lock.
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
