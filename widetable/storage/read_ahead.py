"""What of a far file is fetched before it is asked for: the ranges that a reader has announced, several at once.

    announced       ▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓      ▓▓▓      column chunks of a row group
    parts           [       ][      ][  ]      [ ]      joined over small gaps, cut to `PART_BYTES`
    read            ──►                                 the parts of what is asked for, and after them as many as memory
                                                        allows, in requests side by side

A part is let go when as many of its announced bytes have been read, in whatever order; what is asked for a second time,
or was never announced, is a request of its own. Memory: what is asked for, which the reader takes whole anyhow, and of
all files of a process `_MOST_BYTES` more. Raises what fetching raises.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from widetable.forked_child import SharedByThreads
from widetable.worker_thread import in_threads

# A gap of so many bytes costs less than another request.
_GAP_BYTES: Final = 1 << 20
PART_BYTES: Final = 4 << 20
_REQUESTS_AT_ONCE: Final = 8
# Of parts that nobody has asked for yet: of one file, and of all files of this process.
_MOST_OF_A_FILE: Final = 16 << 20
_MOST_BYTES: Final = 128 << 20

RangeOf = Callable[[int, int], bytes]


class Range(NamedTuple):
    """Bytes from start to before end."""

    start: int
    end: int


@dataclass
class _FarPart:
    """unread: of its announced bytes. data: None until it is fetched."""

    start: int
    end: int
    unread: int
    data: memoryview | None = None


class Room(SharedByThreads):
    """Memory for parts that nobody has asked for yet."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        super().__init__()

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self.taken_bytes = 0

    def take(self, count: int) -> bool:
        """Whether there is so much; it is taken then."""
        with self._lock:
            fits = self.taken_bytes + count <= self.most_bytes
            self.taken_bytes += count if fits else 0
            return fits

    def give_back(self, count: int) -> None:
        with self._lock:
            self.taken_bytes = max(0, self.taken_bytes - count)  # 0: taken before a fork


ROOM: Final = Room(_MOST_BYTES)


def parts_of(ranges: Sequence[Range], gap_bytes: int, most_bytes: int) -> list[tuple[Range, int]]:
    """(what is fetched at once, bytes of the ranges in it), by position. The ranges do not overlap."""
    spans: list[Range] = []
    for start, end in sorted(ranges):
        if spans and start - spans[-1].end <= gap_bytes:
            spans[-1] = Range(spans[-1].start, end)
        else:
            spans.append(Range(start, end))
    parts = [
        Range(at, min(at + most_bytes, end))
        for start, end in spans
        for at in range(start, end, most_bytes)
    ]
    wanted, starts = [0] * len(parts), [part.start for part in parts]
    for each in ranges:
        first, last = bisect_right(starts, each.start) - 1, bisect_left(starts, each.end)
        for number in range(first, last):
            wanted[number] += _shared(parts[number], each)
    return list(zip(parts, wanted, strict=True))


class ReadAhead:
    """Of one open file; one thread at a time. fetch: the bytes of a range."""

    def __init__(self, fetch: RangeOf, room: Room = ROOM) -> None:
        self._fetch = fetch
        self._room = room
        self._parts: list[_FarPart] = []
        self._taken_bytes = 0

    def expect(self, ranges: Sequence[Range]) -> None:
        """These will be read, each once and mostly in this order; what was announced before is let go."""
        self.close()
        parts = parts_of(ranges, _GAP_BYTES, PART_BYTES)
        self._parts = [_FarPart(*part, unread) for part, unread in parts]

    def close(self) -> None:
        """Let go of all that is held."""
        self._parts = []
        self._room.give_back(self._taken_bytes)
        self._taken_bytes = 0

    def read(self, start: int, end: int) -> bytes | None:
        """The bytes, as far as parts have all of them; else None."""
        asked = [part for part in self._parts if part.start < end and start < part.end]
        if not _cover(asked, start, end):
            return None
        self._fetch_parts(asked)
        found = b"".join(_within(part, start, end) for part in asked)
        for part in asked:
            part.unread -= _shared(Range(part.start, part.end), Range(start, end))
        self._let_go([part for part in asked if part.unread <= 0])
        return found

    def _fetch_parts(self, asked: Sequence[_FarPart]) -> None:
        missing = [part for part in asked if part.data is None]
        if not missing:
            return
        chosen = [*missing, *self._next_ones(asked[-1])]
        fetched = in_threads(
            lambda part: self._fetch(part.start, part.end), chosen, _REQUESTS_AT_ONCE, "read"
        )
        for part, data in zip(chosen, fetched, strict=True):
            part.data = memoryview(data)

    def _next_ones(self, last: _FarPart) -> list[_FarPart]:
        """Those after it that there is room for."""
        chosen = []
        for part in self._parts[self._parts.index(last) + 1 :]:
            size = part.end - part.start
            if part.data is not None:
                continue
            if self._taken_bytes + size > _MOST_OF_A_FILE or not self._room.take(size):
                break
            self._taken_bytes += size
            chosen.append(part)
        return chosen

    def _let_go(self, parts: Sequence[_FarPart]) -> None:
        for part in parts:
            self._parts.remove(part)
        held = sum(part.end - part.start for part in self._parts if part.data is not None)
        if held < self._taken_bytes:
            self._room.give_back(self._taken_bytes - held)
            self._taken_bytes = held


def _cover(parts: Sequence[_FarPart], start: int, end: int) -> bool:
    """Whether parts in order, which do not overlap, have all bytes."""
    at = start
    for part in parts:
        if part.start > at:
            return False
        at = part.end
    return at >= end


def _shared(one: Range, other: Range) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _within(part: _FarPart, start: int, end: int) -> memoryview:
    assert part.data is not None, "fetched before"
    return part.data[max(start - part.start, 0) : end - part.start]
