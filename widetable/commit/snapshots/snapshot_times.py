"""The times of snapshots, some of which a wrong clock may have made. Pure (docs/decisions/0017-clocks.md).

A snapshot has the time of its writer's clock, but never one before its predecessor's, unless the predecessor is so far
ahead that its clock must have been wrong. So times ascend, except for snapshots of wrong clocks. A search that finds a
snapshot too young checks a few later ones before it turns back:

    id      1    2    3    4    5    6    7    8
    time   10   11   12  900   13   14   15   16        newest at 15: 4 is too young, 5 is not ─► continue after 5
                          ▲    ▲
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

TimeOf = Callable[[int], int | None]
# How far correct clocks of several machines may differ.
AHEAD_MILLIS: Final = 60_000


def commit_millis(now_millis: int, previous_millis: int | None) -> int:
    """Return the time of a commit after a snapshot of that time."""
    if previous_millis is None or is_ahead(previous_millis, now_millis):
        return now_millis
    return max(now_millis, previous_millis)


def is_ahead(millis: int, now_millis: int) -> bool:
    """Return whether only a wrong clock, that of the writer or ours, can have made this time."""
    return millis - now_millis > AHEAD_MILLIS


def following(at: int, last: int) -> Iterator[int]:
    """Yield the next index, others at doubling distances, and `last`: few checks skip many wrong times in a row."""
    step = 1
    while at + step < last:
        yield at + step
        step *= 2
    if at < last:
        yield last


def newest_at(ids: Sequence[int], time_millis: int, time_of: TimeOf) -> int | None:
    """Return the newest of these snapshots whose time is not after `time_millis`; None: all are younger.

    ids: ascending. time_of: returns the time of a snapshot; None if it has expired since, and with it all before it.
    The result is exact unless two or more wrong times follow one another; then it may be a snapshot before these.
    """

    def is_old_enough(at: int) -> bool:
        millis = time_of(ids[at])
        return millis is not None and millis <= time_millis

    if ids and is_old_enough(len(ids) - 1):
        return ids[-1]
    newest = None
    low, high = 0, len(ids) - 2
    while low <= high:
        middle = (low + high) // 2
        if time_of(ids[middle]) is None:
            low = middle + 1
            continue
        hit = next((at for at in (middle, *following(middle, high)) if is_old_enough(at)), None)
        if hit is None:
            high = middle - 1
        else:
            newest, low = hit, hit + 1
    return None if newest is None else ids[newest]


class Times:
    """The times of snapshots, each looked up once. has_missed: whether a requested snapshot does not exist: then it has
    expired, or is lost, and a search over a range of ids must list them.
    """

    def __init__(self, time_of: TimeOf) -> None:
        self._time_of = time_of
        self._cached: dict[int, int | None] = {}

    def of(self, id: int) -> int | None:
        if id not in self._cached:
            self._cached[id] = self._time_of(id)
        return self._cached[id]

    @property
    def has_missed(self) -> bool:
        return None in self._cached.values()


def ahead(times: Sequence[tuple[int, int]], now_millis: int) -> list[int]:
    """Return, ascending, the snapshots whose time is further ahead than correct clocks differ.

    Ahead means: of now, or of the time of a later snapshot. times: (id, time) in the order of ids.
    """
    earliest_millis, ids = now_millis, []
    for id, millis in reversed(times):
        if is_ahead(millis, earliest_millis):
            ids.append(id)
        earliest_millis = min(earliest_millis, millis)
    return ids[::-1]
