"""An object as a file that is read: the tail first, where Parquet has its footer, then what is asked for.

    ┌──────────────────────────────┬────────┐
    │ ranges, each with read-ahead │ tail   │   the first request: it also tells the size; of a small object it is all
    └──────────────────────────────┴────────┘

What a reader announces (`RangedFile.expect`) comes in larger ranges, several at once (read_ahead). Of all else one
range is kept, as readers go front to back; it is as long as what is asked for, and not less than `_AHEAD_BYTES`. Raises
what these functions raise.

An object of 5,120,000 bytes, nothing announced; what is asked for and which requests that makes:

    opened                          the last 1,048,576
    10 bytes at 0, 10 more          0 .. 1,048,576; the second is at hand
    2,000,000 at 2,000,000          2,000,000 .. 4,000,000
    the last 5                      at hand
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
    """A file that is read from one position on, for one thread. A subclass has `read`."""

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
    """tail: of at most so many bytes, and the size of all. range_of: the bytes from start to before end."""

    def __init__(self, tail: Callable[[int], tuple[bytes, int]], range_of: RangeOf) -> None:
        # First: where the tail fails it is closed with this.
        self.ahead: Final = ReadAhead(range_of)
        found, size = tail(_TAIL_BYTES)
        super().__init__(size)
        self._tail, self._range_of = memoryview(found), range_of
        self.tail_start: Final = self._size - len(self._tail)
        self._range, self._range_start = memoryview(b""), 0

    def size(self) -> int:
        """Of the object, in bytes."""
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        found = bytes(self._bytes(self._at, wanted)) if wanted else b""
        self._at += len(found)
        return found

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self.ahead.close()
        super().close()

    def _bytes(self, start: int, size: int) -> memoryview:
        if start >= self.tail_start:
            return self._tail[start - self.tail_start :][:size]
        # What was announced is not kept here as well: it is read once, and the range at hand
        # serves the rest.
        found = self.ahead.read(start, start + size)
        if found is not None:
            return memoryview(found)
        at = start - self._range_start
        if not 0 <= at <= len(self._range) - size:
            end = min(self._size, start + max(size, _AHEAD_BYTES))
            self._range, self._range_start = memoryview(self._range_of(start, end)), start
            at = 0
        return self._range[at:][:size]


class RangedFile(pa.PythonFile):  # type: ignore[misc]
    """A RangedInput for Arrow, which asks for one range after the other."""

    def __init__(self, source: RangedInput, mode: str = "r") -> None:
        super().__init__()  # Arrow took both when the object was made
        self._source = source

    def expect(self, ranges: Sequence[Range]) -> None:
        """These will be read soon, each once. What is not in the file is passed over: who reads it sees that; and what
        is at hand.
        """
        size, tail_start = self._source.size(), self._source.tail_start
        wanted = [each for each in ranges if 0 <= each.start < each.end <= size]
        self._source.ahead.expect([each for each in wanted if each.start < tail_start])


def file_of_size(size: int, range_of: RangeOf) -> RangedFile:
    """One whose size is known before anything of it is asked for."""

    def tail(most: int) -> tuple[bytes, int]:
        start = max(0, size - most)
        return range_of(start, size) if size else b"", size

    return RangedFile(RangedInput(tail, range_of))
