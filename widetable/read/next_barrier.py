"""Chooses the next barrier of a job, among those that all of its sources have. Pure.

    first       the newest one: the job begins with the rows as of it
    then        the roundest one after the last: the one with the most trailing zero bits in units of the interval

So jobs that are behind by different amounts meet at the same barriers, without communication: a job at 20 that may
choose among 30 to 70 chooses 40, then 60, then 70. Source: rules R8 and R12 of docs/consistency.md.

    source A has 10 to 40 and 60 to 90, source B 30 to 70     in common: 30 to 40 and 60 to 70
        first: 70; otherwise 40: 4 = 0b100 ends with more zeros than 3, 6 and 7
    A has 10 to 70, of which only 10, 30 and 60 are exact     60; of 10, 30 and 50 the newest, 50: all are odd
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widetable.commit.barriers.barrier_cut import roundest

Span = tuple[int, int]


@dataclass(frozen=True)
class Available:
    """The barriers that one source has. spans: first and last, ascending and disjoint. chosen: the barriers in them
    that are exact, ascending; None for all.
    """

    spans: Sequence[Span]
    chosen: Sequence[int] | None = None

    def up_to(self, newest: int | None) -> Available:
        """Return the barriers up to `newest`; None: all."""
        if newest is None:
            return self
        spans = [(first, min(last, newest)) for first, last in self.spans if first <= newest]
        return Available(spans, self.chosen)


def next_barrier(sources: Sequence[Available], interval: int, *, is_first: bool) -> int | None:
    """Choose the next barrier; None if the sources have none in common.
    sources: at least one; interval: that of all of them. is_first: the job has taken no barrier yet. The
    result depends on the arguments only, so a second call for the same sources chooses the same one.
    """
    spans = sources[0].spans
    for source in sources[1:]:
        spans = _common(spans, source.spans)
    lists = [set(source.chosen) for source in sources if source.chosen is not None]
    if lists:
        common = set.intersection(*lists)
        candidates = [b for b in common if any(first <= b <= last for first, last in spans)]
    elif is_first:
        candidates = [last for _, last in spans]
    else:
        candidates = [roundest(first, last, interval) for first, last in spans]
    if is_first:
        return max(candidates, default=None)
    return max(candidates, key=lambda barrier: (_zeros(barrier // interval), barrier), default=None)


def _common(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    overlaps = ((max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right)
    return [(first, last) for first, last in overlaps if first <= last]


def _zeros(number: int) -> int:
    """Return the number of trailing zero bits of a positive number."""
    return (number & -number).bit_length() - 1
