"""A remote file or object that is being written, as a Python file. It exists once it is closed.

Raises the errors into which `call` translates those of the client.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


class RemoteOutput(io.RawIOBase):
    """A writable file on a client's writer.

    writer: the client's writer, with write and close. call: calls a function of the client and translates its errors.
    last: called when all is written, before the close.

    Closing completes the object with the bytes written so far, also after an error: the caller that
    gave up then deletes it, as no manifest names it. The file is marked as closed before the client
    is called, so a failed close is not retried.
    """

    def __init__(
        self,
        writer: Any,
        call: Callable[[Callable[[], Any]], Any],
        last: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__()
        self._writer, self._call, self._last = writer, call, last

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = memoryview(data).cast("B")
        self._call(lambda: self._writer.write(piece))
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._last is not None:
                self._call(self._last)
            self._call(self._writer.close)
