"""An output that hands on what is written to it, until it is to hold the rest back: the footer of a Parquet file,
which its writer ends with.

In: a file to write to. Out: the bytes that were held. Raises what the file raises.

    while Arrow writes row groups   write -> out
    hold()                          from here on write -> memory, tell still counts
    parquet.close()                 the footer, its length and "PAR1" come into memory
    tail                            the writer changes it and writes it to `out` itself

A footer is small beside the row groups, so memory stays bounded. `tell` must go on counting:
Arrow takes the length of the footer from it.
"""

from __future__ import annotations

import pyarrow as pa


class HeldTail:
    """As much of a Python file as Arrow's writer asks for (`pa.PythonFile`)."""

    def __init__(self, out: pa.NativeFile) -> None:
        self._out = out
        self._held: list[bytes] | None = None
        self._held_bytes = 0
        self.closed = False

    def hold(self) -> None:
        """From now on nothing is handed on."""
        self._held = []

    @property
    def tail(self) -> bytes:
        """What was held."""
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
        """Nothing waits here."""

    def close(self) -> None:
        """The file itself stays open: it is its owner's."""
        self.closed = True
