"""Read-ahead of a remote file: fetches the ranges that a reader has announced before it reads them, several at once.

    announced       ▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓      ▓▓▓      column chunks of a row group
    parts           [       ][      ][  ]      [ ]      joined over small gaps, cut to `PART_BYTES`
    read            ──►                                 fetches the parts of the range, and as many parts after them as
                                                        memory allows, in concurrent requests

A part is released when as many bytes have been read as were announced, in any order. A range that is read again, or was
never announced, is a separate request. Memory: the range, which the reader loads as a whole anyway, and `_MAX_BYTES`
more for all files of a process. Raises what fetching raises.

`parts_of`, with gaps up to 3 and parts up to 8 bytes:

    ranges      0:4  6:16  40:43
    joined      0:16       40:43
    parts       0:8 (6 announced)   8:16 (8)   40:43 (3)

The numbers are announced bytes: bytes of gaps are fetched but never read, and a part is
complete without them.
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

# A gap of so many bytes costs less than another request: about what a connection transfers in that time (0055).
_GAP_BYTES: Final = 1 << 20
PART_BYTES: Final = 4 << 20
_REQUESTS_AT_ONCE: Final = 8
# Limits of the parts that were fetched ahead: of one file, and of all files of this process.
_MAX_OF_A_FILE: Final = 16 << 20
_MAX_BYTES: Final = 128 << 20

RangeOf = Callable[[int, int], bytes]


class Range(NamedTuple):
    """Bytes from start to before end."""

    start: int
    end: int


@dataclass
class _RemotePart:
    """A part of an announced file. unread: announced bytes that were not read; the part is released at 0. data: None
    until it is fetched. is_taken: its memory is reserved.
    """

    start: int
    end: int
    unread: int
    data: memoryview | None = None
    is_taken: bool = False

    @property
    def size(self) -> int:
        return self.end - self.start


class PrefetchBudget(SharedByThreads):
    """The memory budget of parts that are fetched ahead."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        super().__init__()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self.taken_bytes = 0

    def take(self, count: int) -> bool:
        """Reserve memory, and return True, if the budget allows it."""
        with self._lock:
            fits = self.taken_bytes + count <= self.most_bytes
            self.taken_bytes += count if fits else 0
            return fits

    def give_back(self, count: int) -> None:
        with self._lock:
            self.taken_bytes = max(0, self.taken_bytes - count)  # 0: reserved before a fork


PREFETCH_BUDGET: Final = PrefetchBudget(_MAX_BYTES)


def parts_of(ranges: Sequence[Range], gap_bytes: int, most_bytes: int) -> list[tuple[Range, int]]:
    """Return (range of a part, announced bytes in it), by position. Ranges overlap only in damaged footers.

    Joined ranges are cut into parts, so a part may begin in the middle of a range. Its number counts
    the bytes of all ranges in it, twice where they overlap.
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
    announced, starts = [0] * len(parts), [part.start for part in parts]
    for each in ranges:
        first, last = bisect_right(starts, each.start) - 1, bisect_left(starts, each.end)
        for number in range(first, last):
            announced[number] += _shared(parts[number], each)
    return list(zip(parts, announced, strict=True))


class ReadAhead:
    """The read-ahead of one open file; for one thread at a time. fetch: returns the bytes of a range.

    A part is announced; then fetched ahead, with reserved memory, or fetched when it is read; then
    released. A part that was fetched ahead is kept until it is read, the file is closed, or other
    ranges are announced.
    """

    def __init__(self, fetch: RangeOf, room: PrefetchBudget = PREFETCH_BUDGET) -> None:
        self._fetch = fetch
        self._room = room
        self._parts: list[_RemotePart] = []
        self._taken_bytes = 0

    def expect(self, ranges: Sequence[Range]) -> None:
        """Announce ranges that will be read, each once and mostly in this order. Release those announced before."""
        self.close()
        parts = parts_of(ranges, _GAP_BYTES, PART_BYTES)
        self._parts = [_RemotePart(*part, unread) for part, unread in parts]

    def close(self) -> None:
        """Release all parts and their memory."""
        self._parts = []
        self._room.give_back(self._taken_bytes)
        self._taken_bytes = 0

    def read(self, start: int, end: int) -> bytes | None:
        """Return the bytes if the parts contain all of them; otherwise None.

        None: the range was not announced, or a fetched part was too short. The caller then requests
        the range itself, and so finds out what is wrong with the file, if anything.
        """
        first = max(0, bisect_right(self._parts, start, key=_start) - 1)
        behind = bisect_left(self._parts, end, key=_start)
        parts = self._parts[first:behind]
        if not _cover(parts, start, end):
            return None
        # One round of requests fetches the missing parts and the next ones. Nothing is fetched if
        # no part is missing: so the window advances in steps of several parts, not by single ones.
        missing = [part for part in parts if part.data is None]
        if missing:
            self._fetch_parts([*missing, *self._next_ones(behind)])
        if any(part.data is None for part in missing):
            return None
        data = b"".join(_within(part, start, end) for part in parts)
        for part in parts:
            # Bytes of gaps count as well: a reader that also reads gaps releases the part early,
            # and makes separate requests for the rest.
            part.unread -= _shared(Range(part.start, part.end), Range(start, end))
            if part.unread <= 0:
                self._release(part)
        return data

    def _fetch_parts(self, chosen: Sequence[_RemotePart]) -> None:
        fetched = in_threads(
            lambda part: self._fetch(part.start, part.end), chosen, _REQUESTS_AT_ONCE, "read"
        )
        for part, data in zip(chosen, fetched, strict=True):
            # Another length means that the file has changed; the caller's own request reveals that.
            if len(data) == part.size:
                part.data = memoryview(data)

    def _next_ones(self, first: int) -> list[_RemotePart]:
        """Return the next parts that can be fetched ahead, in order, up to the first one without memory for it: the
        parts after that are read later.
        """
        chosen = []
        for part in islice(self._parts, first, None):
            if part.data is not None or part.unread <= 0:
                continue
            if not part.is_taken:  # it is taken if a fetch has failed
                is_fit = self._taken_bytes + part.size <= _MAX_OF_A_FILE
                if not is_fit or not self._room.take(part.size):
                    break
                part.is_taken = True
                self._taken_bytes += part.size
            chosen.append(part)
        return chosen

    def _release(self, part: _RemotePart) -> None:
        part.data = None
        if part.is_taken:
            self._taken_bytes -= part.size
            self._room.give_back(part.size)


def _start(part: _RemotePart) -> int:
    return part.start


def _cover(parts: Sequence[_RemotePart], start: int, end: int) -> bool:
    """Return whether parts, in order and without overlap, are not yet released and cover all bytes."""
    at = start
    for part in parts:
        if part.start > at or part.unread <= 0:
            return False
        at = part.end
    return at >= end


def _shared(one: Range, other: Range) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _within(part: _RemotePart, start: int, end: int) -> memoryview:
    assert part.data is not None, "fetched before"
    return part.data[max(start - part.start, 0) : end - part.start]
