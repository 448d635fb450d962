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


def following(id: int, last: int) -> Iterator[int]:
    """The next id, then others at doubling distances, and `last`: a few looks that pass many wrong ones in a row."""
    step = 1
    while id + step < last:
        yield id + step
        step *= 2
    if id < last:
        yield last


def newest_at(first: int, last: int, time_millis: int, time_of: TimeOf) -> int | None:
    """The newest snapshot from `first` to `last` whose time is not after `time_millis`; None: all are younger.

    time_of: of a snapshot; None when it has expired since. Exact while no two wrong ones follow one another; where
    more do, the answer may be one from before them.
    """

    def is_there(id: int) -> bool:
        millis = time_of(id)
        return millis is not None and millis <= time_millis

    if is_there(last):
        return last
    found = None
    low, high = first, last - 1
    while low <= high:
        middle = (low + high) // 2
        if time_of(middle) is None:
            low = middle + 1
            continue
        hit = next((id for id in (middle, *following(middle, high)) if is_there(id)), None)
        if hit is None:
            high = middle - 1
        else:
            found, low = hit, hit + 1
    return found


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
