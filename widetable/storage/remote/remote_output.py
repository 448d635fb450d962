"""A far file or object while it is written, as a file of Python: there once it is closed.

Raises what `asked` turns the client's errors into.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


class FarOutput(io.RawIOBase):
    """writer: the client's, with write and close. asked: asks the client, with its errors as ours. last: what is asked
    when all is written, before the close.

    Closing completes the object with what was written so far, also after an error: whoever gave
    up deletes it then, as its name is in no manifest. It is marked as closed before the client
    is asked, so a close that failed is not tried again.
    """

    def __init__(
        self,
        writer: Any,
        asked: Callable[[Callable[[], Any]], Any],
        last: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__()
        self._writer, self._asked, self._last = writer, asked, last

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = memoryview(data).cast("B")
        self._asked(lambda: self._writer.write(piece))
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._last is not None:
                self._asked(self._last)
            self._asked(self._writer.close)
