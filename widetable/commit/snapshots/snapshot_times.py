"""What times of snapshots are worth, where a machine's clock was wrong. Pure (docs/decisions/0017-clocks.md).

A snapshot has the time of whoever committed it, but never one before its predecessor's: unless that runs so far ahead
that the clock which made it must have been wrong. So times ascend, but for snapshots of wrong clocks, and a search
that finds one too young looks a little further before it turns back:

    id      1    2    3    4    5    6    7    8
    time   10   11   12  900   13   14   15   16        newest at 15: 4 is too young, 5 is not ─► go on behind 5
                          ▲    ▲
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

TimeOf = Callable[[int], int | None]
# How far right clocks of several machines may differ.
AHEAD_MILLIS: Final = 60_000


def commit_millis(now_millis: int, previous_millis: int | None) -> int:
    """The time of a commit after a snapshot of that time."""
    if previous_millis is None or is_ahead(previous_millis, now_millis):
        return now_millis
    return max(now_millis, previous_millis)


def is_ahead(millis: int, now_millis: int) -> bool:
    """Whether only a wrong clock can have shown this time until now: that one, or ours."""
    return millis - now_millis > AHEAD_MILLIS


def following(at: int, last: int) -> Iterator[int]:
    """The next place, then others at doubling distances, and `last`: a few looks that pass many wrong ones in a row."""
    step = 1
    while at + step < last:
        yield at + step
        step *= 2
    if at < last:
        yield last


def newest_at(ids: Sequence[int], time_millis: int, time_of: TimeOf) -> int | None:
    """The newest of these snapshots whose time is not after `time_millis`; None: all are younger.

    ids: ascending. time_of: of a snapshot; None when it has expired since, as then all before it have. Exact while no
    two wrong ones follow one another; where more do, the answer may be one from before them.
    """

    def is_there(at: int) -> bool:
        millis = time_of(ids[at])
        return millis is not None and millis <= time_millis

    if ids and is_there(len(ids) - 1):
        return ids[-1]
    found = None
    low, high = 0, len(ids) - 2
    while low <= high:
        middle = (low + high) // 2
        if time_of(ids[middle]) is None:
            low = middle + 1
            continue
        hit = next((at for at in (middle, *following(middle, high)) if is_there(at)), None)
        if hit is None:
            high = middle - 1
        else:
            found, low = hit, hit + 1
    return None if found is None else ids[found]


class Times:
    """Times of snapshots, each looked up once. has_missed: whether one that was asked for is not there: then it has
    expired, or is lost, and whoever searches a range of ids has to list them.
    """

    def __init__(self, time_of: TimeOf) -> None:
        self._look = time_of
        self._known: dict[int, int | None] = {}

    def of(self, id: int) -> int | None:
        if id not in self._known:
            self._known[id] = self._look(id)
        return self._known[id]

    @property
    def has_missed(self) -> bool:
        return None in self._known.values()


def ahead(times: Sequence[tuple[int, int]], now_millis: int) -> list[int]:
    """The snapshots whose time is ahead of now or of a later snapshot's by more than right clocks differ, ascending.

    times: (id, time) in the order of ids.
    """
    earliest_millis, found = now_millis, []
    for id, millis in reversed(times):
        if is_ahead(millis, earliest_millis):
            found.append(id)
        earliest_millis = min(earliest_millis, millis)
    return found[::-1]
