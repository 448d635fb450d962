"""How fast the demo's input comes: as fast as the machine holds, which is measured while it runs.

In: about twice a second, how many files of a stream wait for its query, and how far the newest barrier that was read is
behind the clock. Out: the next pace, records per second. Pure.

                       files wait >= 3, or the barrier is > 6 s behind    a tenth slower
                       files wait <= 1, and it is <= 4 s behind           a fiftieth faster
                       else                                               the same

Slowing down is faster than speeding up, so queues that have grown are drained. A fixed pace would show on a slower
machine how long the demo has run, because files queue, and not how long a change takes.
"""

from __future__ import annotations

from typing import Final

# Two cores hold this with all queries running.
FIRST_RECORDS_PER_SECOND: Final = 13_000.0
_SLOWEST: Final = 3_000.0
_FASTEST: Final = 100_000.0
_SLOWER: Final = 0.9
_FASTER: Final = 1.02
_MANY_FILES: Final = 3
_FEW_FILES: Final = 1
_FAR_SECONDS: Final = 6.0
_NEAR_SECONDS: Final = 4.0


def next_pace(records_per_second: float, waiting_files: int, behind_seconds: float) -> float:
    """Return the pace that follows a pace.

    Parameters
    ----------
    records_per_second
        The pace until now, of all streams together.
    waiting_files
        Files that have come and are not taken, of the stream that has most of them.
    behind_seconds
        Age of the newest barrier that was read.
    """
    if waiting_files >= _MANY_FILES or behind_seconds > _FAR_SECONDS:
        return max(records_per_second * _SLOWER, _SLOWEST)
    if waiting_files <= _FEW_FILES and behind_seconds <= _NEAR_SECONDS:
        return min(records_per_second * _FASTER, _FASTEST)
    return records_per_second
