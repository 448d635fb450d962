"""An output that passes bytes on until `hold` is called, and then buffers the rest: the footer of a Parquet file.

In: a file to write to. Out: the bytes that were held back. Raises the errors of the file.

    while Arrow writes row groups   write -> out
    hold()                          from here on write -> memory, tell still counts
    parquet.close()                 the footer, its length and "PAR1" come into memory
    tail                            the writer changes it and writes it to `out` itself

A footer is small compared to the row groups, so memory stays bounded. `tell` must continue to
count, because Arrow computes the length of the footer from it.
"""

from __future__ import annotations

import pyarrow as pa


class TailBuffer:
    """The part of a Python file's interface that Arrow's writer needs (`pa.PythonFile`)."""

    def __init__(self, out: pa.NativeFile) -> None:
        self._out = out
        self._held: list[bytes] | None = None
        self._held_bytes = 0
        self.closed = False

    def hold(self) -> None:
        """Hold all later bytes back."""
        self._held = []

    @property
    def tail(self) -> bytes:
        """The bytes that were held back."""
        return b"".join(self._held or ())

    def write(self, data: bytes | memoryview) -> int:
        if self._held is None:
            self._out.write(data)
        else:
            self._held.append(bytes(data))
            self._held_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return int(self._out.tell()) + self._held_bytes

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Mark the output as closed; the file itself belongs to its owner and stays open."""
        self.closed = True
