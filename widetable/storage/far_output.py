"""An object while it is written, as a file of Python: there once it is closed.

Raises what `mapped` turns the client's errors into.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class FarOutput(io.RawIOBase):
    """writer: the client's, with write and close.

    Closing completes the object with what was written so far, also after an error: whoever gave
    up deletes it then, as its name is in no manifest. It is marked as closed before the client
    is asked, so a close that failed is not tried again.
    """

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
