"""The rules of a maintainer, decided from values: which compaction is due, and how to answer an error. Pure.

The first line that holds decides:

    no snapshot                                                            NONE
    the interval of full compactions is over, and new snapshots exist      FULL
    rows may be too old, and a check is due                                EXPIRY
    new snapshots since all was compacted; a note; a damaged bucket, and
    a minute has passed                                                    PICKED
    else                                                                   NONE

EXPIRY comes before PICKED, because a busy table has something to pick in every round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from widetable.errors import (
    ConflictError,
    DamagedError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)

_SHORTEST_PAUSE_MILLIS: Final = 100
_LONGEST_WAIT_MILLIS: Final = 60_000
# An error for a damaged file may come from one read that went wrong.
_DAMAGED_TIMES: Final = 3
_MAX_SUBJECTS: Final = 100
# How long buckets with damaged files are skipped while nothing else is new.
RETRY_MILLIS: Final = 60_000
# How often a table with `full-compaction` gets its changelog, by default.
FULL_COMPACTION_MILLIS: Final = 60_000


class Compaction(Enum):
    """Says what to compact. NONE: nothing. PICKED: what the universal rules and the producer pick. FULL: everything.
    EXPIRY: buckets with rows that are too old.
    """

    NONE = "none"
    PICKED = "picked"
    FULL = "full"
    EXPIRY = "expiry"


@dataclass(frozen=True)
class Progress:
    """Holds what a maintainer has done so far. Times are of a clock that only goes forward.

    latest_id: the newest snapshot, None without any. settled_id: the one after which nothing was left to compact.
    full_id: the newest one when the last full compaction ended; millis_since_full: since then. has_request: an append
    left a note that it waits for its changelog. millis_since_damage: since a bucket was skipped because of a damaged
    file; None: no bucket is. millis_since_look: since the last check for rows that are too old. millis_since_full and
    millis_since_look are None until this maintainer has done that; then it is due at once.
    """

    latest_id: int | None
    settled_id: int | None
    full_id: int | None
    millis_since_full: float | None
    has_request: bool = False
    millis_since_damage: float | None = None
    millis_since_look: float | None = None


def due_compaction(
    progress: Progress,
    producer: str,
    full_compaction_interval_millis: int | None,
    look_interval_millis: int | None = None,
) -> Compaction:
    """Return the compaction that is due.

    full_compaction_interval_millis: None: never, except for the producer `full-compaction`, which needs them.
    look_interval_millis: between checks for rows that are too old, also in a busy table; None: rows stay.
    """
    if progress.latest_id is None:
        return Compaction.NONE
    interval_millis = full_compaction_interval_millis
    if interval_millis is None and producer == "full-compaction":
        interval_millis = FULL_COMPACTION_MILLIS
    if interval_millis is not None and progress.latest_id != progress.full_id:
        waited_millis = progress.millis_since_full
        if waited_millis is None or waited_millis >= interval_millis:
            return Compaction.FULL
    if look_interval_millis is not None:
        waited_millis = progress.millis_since_look
        if waited_millis is None or waited_millis >= look_interval_millis:
            return Compaction.EXPIRY
    is_retry_due = (progress.millis_since_damage or 0) >= RETRY_MILLIS
    if progress.latest_id != progress.settled_id or progress.has_request or is_retry_due:
        return Compaction.PICKED
    return Compaction.NONE


class Answer(Enum):
    """Says how to answer an error. AGAIN: retry at the next round. LATER: retry after a delay that grows. GIVE_UP: only
    the user can help.
    """

    AGAIN = "again"
    LATER = "later"
    GIVE_UP = "give up"


@dataclass(frozen=True)
class Failures:
    """Remembers rounds that failed in a row, without their exceptions, which would keep stack frames in memory.

    count: of the rounds that were answered with LATER. damaged: the last subjects of their DamagedErrors. has_missed:
    whether a round was answered with AGAIN for a NotFoundError.
    """

    count: int = 0
    damaged: tuple[str, ...] = ()
    has_missed: bool = False

    def plus(self, error: BaseException, answer: Answer) -> Failures:
        """Return the failures with one more round, its error and the answer to it."""
        if answer is Answer.AGAIN:
            return replace(self, has_missed=self.has_missed or isinstance(error, NotFoundError))
        subjects = (error.subject,) if isinstance(error, DamagedError) else ()
        damaged = (*self.damaged, *subjects)[-_MAX_SUBJECTS:]
        return replace(self, count=self.count + 1, damaged=damaged)


def answer_to(error: BaseException, before: Failures, *, table_is_there: bool) -> Answer:
    """Decide how to answer an error. before: the rounds that failed in a row before this one.

    The first line that holds decides:

        InvalidError, UnsupportedError; any error of a table that is gone     GIVE_UP
        ConflictError                                                         AGAIN: somebody else did the work
        NotFoundError                                                         AGAIN; after another, or any LATER: LATER
        DamagedError of one file, for the third time in a row                 GIVE_UP; before that LATER
        all others (storage, memory, faults of this package)                  LATER
    """
    if isinstance(error, InvalidError | UnsupportedError) or not table_is_there:
        return Answer.GIVE_UP
    if isinstance(error, ConflictError):
        return Answer.AGAIN
    if isinstance(error, NotFoundError):  # a snapshot that expired while it was read
        return Answer.LATER if before.count or before.has_missed else Answer.AGAIN
    if isinstance(error, DamagedError):
        times = 1 + before.damaged.count(error.subject)
        return Answer.GIVE_UP if times >= _DAMAGED_TIMES else Answer.LATER
    return Answer.LATER


def wait_millis(interval_millis: int, failures: int) -> int:
    """Return how long to wait after so many failed rounds in a row. The wait doubles up to a minute, and is never
    shorter than the interval.

    Interval 1000, from no failure on: 1000, 2000, 4000, .. 32000, 60000, 60000. Interval 0: 0, 200, 400, 800; interval
    120000: always 120000.
    """
    if not failures:
        return interval_millis
    doubled_millis = max(interval_millis, _SHORTEST_PAUSE_MILLIS) << min(failures, 16)
    return min(doubled_millis, max(_LONGEST_WAIT_MILLIS, interval_millis))
