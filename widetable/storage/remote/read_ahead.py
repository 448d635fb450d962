"""What of a far file is fetched before it is asked for: the ranges that a reader has announced, several at once.

    announced       ▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓      ▓▓▓      column chunks of a row group
    parts           [       ][      ][  ]      [ ]      joined over small gaps, cut to `PART_BYTES`
    read            ──►                                 the parts of what is asked for, and after them as many as memory
                                                        allows, in requests side by side

A part is let go when as many of its announced bytes have been read, in whatever order; what is asked for a second time,
or was never announced, is a request of its own. Memory: what is asked for, which the reader takes whole anyhow, and of
all files of a process `_MOST_BYTES` more. Raises what fetching raises.

By `parts_of`, with gaps up to 3 and parts up to 8 bytes:

    ranges      0:4  6:16  40:43
    joined      0:16       40:43
    parts       0:8 (6 announced)   8:16 (8)   40:43 (3)

The numbers are announced bytes: bytes of gaps are fetched and never asked for, and a part is
done without them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.worker_thread import in_threads

# A gap of so many bytes costs less than another request: about what a connection brings in the time of one (0055).
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
    """unread: of its announced bytes; when there are none left it is gone. data: None until it is fetched. is_taken: it
    has its room.
    """

    start: int
    end: int
    unread: int
    data: memoryview | None = None
    is_taken: bool = False

    @property
    def size(self) -> int:
        return self.end - self.start


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
    """(what is fetched at once, bytes of the ranges in it), by position. Ranges overlap in damaged footers only.

    Parts are cut within what was joined, so a part may begin in the middle of a range; its
    number are the bytes of all ranges that lie in it, counted twice where they overlap.
    """
    spans: list[Range] = []
    for start, end in sorted(ranges):
        if spans and start - spans[-1].end <= gap_bytes:
            spans[-1] = Range(spans[-1].start, max(spans[-1].end, end))
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
    """Of one open file; one thread at a time. fetch: the bytes of a range.

    A part: announced; taken (it has its room) and fetched ahead, or fetched as it is asked for;
    gone. Parts that are fetched ahead stay until they are read, the file is closed, or another
    announcement comes.
    """

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
        """The bytes, as far as parts have all of them; else None.

        None: nothing announced covers it, or a part came shorter than it is. The caller asks for
        the range itself then, and finds out what is wrong with the file, if anything.
        """
        first = max(0, bisect_right(self._parts, start, key=_start) - 1)
        behind = bisect_left(self._parts, end, key=_start)
        asked = self._parts[first:behind]
        if not _cover(asked, start, end):
            return None
        # One round of requests brings what is missing and, beside it, what comes next. When
        # nothing is missing nothing is fetched: the window moves on in steps of what it held,
        # not by single parts.
        missing = [part for part in asked if part.data is None]
        if missing:
            self._fetch_parts([*missing, *self._next_ones(behind)])
        if any(part.data is None for part in missing):
            return None
        found = b"".join(_within(part, start, end) for part in asked)
        for part in asked:
            # By bytes of the part, whether they were announced or lie in a gap: a reader that
            # takes gaps, too, lets go early, and makes a request of its own for what it asks for
            # then.
            part.unread -= _shared(Range(part.start, part.end), Range(start, end))
            if part.unread <= 0:
                self._let_go(part)
        return found

    def _fetch_parts(self, chosen: Sequence[_FarPart]) -> None:
        fetched = in_threads(
            lambda part: self._fetch(part.start, part.end), chosen, _REQUESTS_AT_ONCE, "read"
        )
        for part, data in zip(chosen, fetched, strict=True):
            if (
                len(data) == part.size
            ):  # else the file has become another, which who asks for it alone finds out
                part.data = memoryview(data)

    def _next_ones(self, first: int) -> list[_FarPart]:
        """Those from there on that there is room for.

        In order, up to the first one that finds no room: a part behind it would be fetched
        before it is its turn.
        """
        chosen = []
        for part in islice(self._parts, first, None):
            if part.data is not None or part.unread <= 0:
                continue
            if not part.is_taken:  # it is, where fetching failed
                is_fit = self._taken_bytes + part.size <= _MOST_OF_A_FILE
                if not is_fit or not self._room.take(part.size):
                    break
                part.is_taken = True
                self._taken_bytes += part.size
            chosen.append(part)
        return chosen

    def _let_go(self, part: _FarPart) -> None:
        part.data = None
        if part.is_taken:
            self._taken_bytes -= part.size
            self._room.give_back(part.size)


def _start(part: _FarPart) -> int:
    return part.start


def _cover(parts: Sequence[_FarPart], start: int, end: int) -> bool:
    """Whether parts in order, which do not overlap, are there and have all bytes."""
    at = start
    for part in parts:
        if part.start > at or part.unread <= 0:
            return False
        at = part.end
    return at >= end


def _shared(one: Range, other: Range) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _within(part: _FarPart, start: int, end: int) -> memoryview:
    assert part.data is not None, "fetched before"
    return part.data[max(start - part.start, 0) : end - part.start]
