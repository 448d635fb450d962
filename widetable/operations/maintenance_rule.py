"""What a maintainer does next, decided from values: which compaction is due, and what an error asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
# A damaged file seen once may be a reading that went wrong.
_DAMAGED_TIMES: Final = 3
# How often a table with `full-compaction` gets its changelog, when nobody says.
FULL_COMPACTION_MILLIS: Final = 60_000


class Compaction(Enum):
    """NONE: nothing is due. PICKED: what the universal rules and the producer pick. FULL: everything."""

    NONE = "none"
    PICKED = "picked"
    FULL = "full"


@dataclass(frozen=True)
class Progress:
    """latest_id: the newest snapshot, None without any. settled_id: the one after which nothing was left to compact.

    full_id: the newest one when the last full compaction ended; millis_since_full: None before the first one.
    is_wanted: an append left a note that it waits for its changelog.
    """

    latest_id: int | None
    settled_id: int | None
    full_id: int | None
    millis_since_full: float | None
    is_wanted: bool = False


def due_compaction(
    progress: Progress, producer: str, full_compaction_interval_millis: int | None
) -> Compaction:
    """full_compaction_interval_millis: None: never, but for the producer `full-compaction`, which lives on it."""
    if progress.latest_id is None:
        return Compaction.NONE
    interval_millis = full_compaction_interval_millis
    if interval_millis is None and producer == "full-compaction":
        interval_millis = FULL_COMPACTION_MILLIS
    if interval_millis is not None and progress.latest_id != progress.full_id:
        waited_millis = progress.millis_since_full
        if waited_millis is None or waited_millis >= interval_millis:
            return Compaction.FULL
    if progress.latest_id != progress.settled_id or progress.is_wanted:
        return Compaction.PICKED
    return Compaction.NONE


class Answer(Enum):
    """AGAIN: at the next round. LATER: wait longer each time. GIVE_UP: only the user can help."""

    AGAIN = "again"
    LATER = "later"
    GIVE_UP = "give up"


def answer_to(errors: Sequence[BaseException], *, table_is_there: bool) -> Answer:
    """errors: of the rounds that failed in a row, the newest last."""
    error = errors[-1]
    if isinstance(error, InvalidError | UnsupportedError) or not table_is_there:
        return Answer.GIVE_UP
    if isinstance(error, ConflictError):
        return Answer.AGAIN
    if isinstance(error, NotFoundError):  # a snapshot that expired while it was read
        return Answer.AGAIN if len(errors) == 1 else Answer.LATER
    if isinstance(error, DamagedError):
        same = [e for e in errors if isinstance(e, DamagedError) and e.subject == error.subject]
        return Answer.GIVE_UP if len(same) >= _DAMAGED_TIMES else Answer.LATER
    return Answer.LATER


def wait_millis(interval_millis: int, failures: int) -> int:
    """How long to wait after so many failed rounds in a row: doubling, up to a minute, never less than the interval."""
    if not failures:
        return interval_millis
    doubled_millis = max(interval_millis, _SHORTEST_PAUSE_MILLIS) << min(failures, 16)
    return min(doubled_millis, max(_LONGEST_WAIT_MILLIS, interval_millis))
