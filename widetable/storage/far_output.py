"""An object while it is written, as a file of Python: there once it is closed.

Raises what `mapped` turns the client's errors into.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class FarOutput(io.RawIOBase):
    """writer: the client's, with write and close."""

    def __init__(self, writer: Any, mapped: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self._writer, self._mapped = writer, mapped

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with self._mapped():
            self._writer.write(memoryview(data).cast("B"))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._mapped():
                self._writer.close()
