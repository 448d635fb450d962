"""An object as a file for reading: the tail first, where Parquet stores its footer, then the requested ranges.

    ┌──────────────────────────────┬────────┐
    │ ranges, each with read-ahead │ tail   │   the first request: it also tells the size; a small object is all tail
    └──────────────────────────────┴────────┘

Ranges that a reader announces (`RangedFile.expect`) are fetched in larger parts, several at once (read_ahead). Of all
others the last one is cached, as readers read from front to back; a range has the requested length, and at least
`_AHEAD_BYTES`. Raises what the fetching functions raise.

An object of 5,120,000 bytes, with nothing announced; the reads and their requests:

    open                            the last 1,048,576
    10 bytes at 0, 10 more          0 .. 1,048,576; the second read makes no request
    2,000,000 at 2,000,000          2,000,000 .. 4,000,000
    the last 5                      no request
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.storage.remote.read_ahead import Range, RangeOf, ReadAhead

_TAIL_BYTES: Final = 1 << 20
_AHEAD_BYTES: Final = 1 << 20


class PositionedInput(io.RawIOBase):
    """A seekable file for one thread, which knows its position. A subclass defines `read`."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at


class RangedInput(PositionedInput):
    """A file that is fetched in ranges.

    tail: returns the last bytes, at most the given number, and the size of the object. range_of: returns the bytes from
    start to before end.
    """

    def __init__(self, tail: Callable[[int], tuple[bytes, int]], range_of: RangeOf) -> None:
        # Set first: if fetching the tail fails, closing this file closes it.
        self.ahead: Final = ReadAhead(range_of)
        last_bytes, size = tail(_TAIL_BYTES)
        super().__init__(size)
        self._tail, self._range_of = memoryview(last_bytes), range_of
        self.tail_start: Final = self._size - len(self._tail)
        self._range, self._range_start = memoryview(b""), 0

    def size(self) -> int:
        """Return the size of the object in bytes."""
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        count = left if size is None or size < 0 else min(size, left)
        data = bytes(self._bytes(self._at, count)) if count else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.ahead.close()
        super().close()

    def _bytes(self, start: int, size: int) -> memoryview:
        if start >= self.tail_start:
            return self._tail[start - self.tail_start :][:size]
        # Announced bytes are read once and not cached here; the cached range serves all other
        # reads.
        announced = self.ahead.read(start, start + size)
        if announced is not None:
            return memoryview(announced)
        at = start - self._range_start
        if not 0 <= at <= len(self._range) - size:
            end = min(self._size, start + max(size, _AHEAD_BYTES))
            self._range, self._range_start = memoryview(self._range_of(start, end)), start
            at = 0
        return self._range[at:][:size]


class RangedFile(pa.PythonFile):  # type: ignore[misc]
    """A RangedInput for Arrow, which reads one range after the other."""

    def __init__(self, source: RangedInput, mode: str = "r") -> None:
        super().__init__()  # Arrow took both arguments when the object was created
        self._source = source

    def expect(self, ranges: Sequence[Range]) -> None:
        """Announce ranges that will be read soon, each once. Ranges outside of the file are ignored (reading them
        fails), and so are those in the tail.
        """
        size, tail_start = self._source.size(), self._source.tail_start
        inside = [each for each in ranges if 0 <= each.start < each.end <= size]
        self._source.ahead.expect([each for each in inside if each.start < tail_start])


def file_of_size(size: int, range_of: RangeOf) -> RangedFile:
    """Open a file whose size is known before the first request."""

    def tail(most: int) -> tuple[bytes, int]:
        start = max(0, size - most)
        return range_of(start, size) if size else b"", size

    return RangedFile(RangedInput(tail, range_of))
