"""Something that goes on beside a test, again and again; what it raises fails the test at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def going_on(step: Callable[[], object], pause_seconds: float) -> Iterator[None]:
    """Call it in a thread while the block runs, with pauses."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.wait(pause_seconds):
                step()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failed, failed
