"""Advice about the writers of a table under barriers. Pure.

In: the barriers of the table, now and `HELD_MILLIS` ago. Out: at most `_MOST` pieces of advice, and none for a table
whose writers keep pace.

    holds    for that long the table has had records of later barriers, or writers that completed them, and was not
             complete up to them: barriers, changes, compactions and expiry wait for this writer
    silent   the writer has shown no activity for that long: no further barrier completes until it returns or leaves
    ahead    the writer's barriers are later than the clock: rows of writers that use the clock wait behind them; not
             said of positions of a database's log

Barriers may be numbers that a program counts instead of times. The rule therefore compares the two states to tell who
holds the table; it does not look at the numbers.

    ten minutes ago    complete up to 20    a at 20    b at 40
    now                complete up to 20    a at 20    b at 60    a holds
    or now             complete up to 30    a at 30    b at 60    nobody: a progresses, if slowly

Source: rules R18 and R21 of docs/consistency.md. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import Final

from widetable.commit.barriers.barrier_state import BarrierState, Member
from widetable.commit.snapshots.snapshot_times import is_ahead
from widetable.format.human_units import duration_text, last_seen_text
from widetable.schema.derived_options import WIDENER_RUN

# This is longer than a restart of a job takes, or a pause of its machine.
HELD_MILLIS: Final = 600_000
# A job of change data capture that labels by positions of a database's log, in a table of this interval. In tables of
# other intervals it labels by the clock.
_LOG_WRITER: Final = "cdc/"
_LOG_INTERVAL: Final = 1
# The most pieces of advice: the first of them suffice when hundreds of writers are stuck.
_MOST: Final = 10


class Remedy(Enum):
    """Names what a command can do about a writer."""

    LEAVE = "the table no longer waits for it"
    MAINTAIN = "a maintainer is this writer: it widens the table"
    REJOIN = "its clock is set, it leaves the table, and joins again"
    NONE = "nothing"


_ACTIONS: Final = {
    Remedy.LEAVE: "Let it complete its barriers, start it again, or let it leave if it will not return.",
    Remedy.MAINTAIN: "Let a maintainer run for as long as the table is written; its log says why it does not widen.",
    Remedy.REJOIN: "Set the clock of its machine, or correct the barriers that it gives. Then stop the writer, let it "
    "leave, and start it again: it joins at the table's complete barrier, and its new rows are in current barriers.",
    Remedy.NONE: "Set the clock of its machine, or correct the barriers that it gives. The table has completed these "
    "barriers, which cannot be undone: until the clock reaches them, pass `barrier=`, each above the last one.",
}


@dataclass(frozen=True)
class BarrierAdvice:
    """Advice about one writer, which `writer` names. The texts are those of a finding."""

    writer: str
    remedy: Remedy
    found: str
    expected: str
    concerned: str

    @property
    def action(self) -> str:
        """Say what to do, in words; `remedy` says which command does it."""
        return _ACTIONS[self.remedy]


def barrier_advice(
    state: BarrierState,
    before: BarrierState | None,
    now_millis: int,
    silent: Mapping[str, int] = MappingProxyType({}),
) -> tuple[BarrierAdvice, ...]:
    """Return advice about the writers, sorted by name, those that hold the table first.

    before: None if the table did not exist, or its state of that time is not kept. silent: writers without activity,
    and for how long, in milliseconds.
    """
    return tuple(islice(_all_advice(state, before, now_millis, silent), _MOST))


def is_lost(silent_millis: int | None) -> bool:
    """Return whether a writer has been silent for longer than a restart takes.

    Parameters
    ----------
    silent_millis : int or None
        For how many milliseconds it has been silent. None: it is not silent.

    Returns
    -------
    bool
        Whether it counts as lost.
    """
    return silent_millis is not None and silent_millis > HELD_MILLIS


def _all_advice(
    state: BarrierState,
    before: BarrierState | None,
    now_millis: int,
    silent: Mapping[str, int],
) -> Iterator[BarrierAdvice]:
    members = sorted(state.members.items())
    # If the table has progressed since, the writers that held it then no longer do.
    holders = (
        _holders(before) if before is not None and before.frontier == state.frontier else set()
    )
    for name, member in members:
        if name in holders and member.frontier == state.frontier:
            yield BarrierAdvice(
                name,
                Remedy.MAINTAIN if member.run == WIDENER_RUN else Remedy.LEAVE,
                f"barrier {member.frontier} for more than {duration_text(HELD_MILLIS)}, while the table has reached "
                f"{_furthest(state)}",
                "a writer that completes barriers, or one that has left",
                "barriers, changes, compactions and expiry of the table, which wait for it",
            )
        elif is_lost(silent.get(name)):
            yield BarrierAdvice(
                name,
                Remedy.LEAVE,
                f"barrier {member.frontier}, {last_seen_text(silent[name])}",
                "a writer that is active, or one that has left",
                "barriers of the table, no further one of which completes until it returns or leaves",
            )
    for name, member in members:
        # A writer that has completed the clock's barrier writes to the next one, so one interval ahead is right.
        if _is_time(state, name) and is_ahead(_latest(member), now_millis + state.interval):
            yield BarrierAdvice(
                name,
                _remedy_ahead(state, now_millis),
                f"barrier {_latest(member)}, {duration_text(_latest(member) - now_millis)} ahead of this machine's "
                "clock",
                "barriers that are not in the future",
                "rows of writers that use the clock, which wait until the clock reaches that barrier",
            )


def _is_time(state: BarrierState, writer: str) -> bool:
    """Return whether a writer's barriers are times. A position of a log is none, and passes the clock at 1.6 TiB."""
    return state.interval != _LOG_INTERVAL or not writer.startswith(_LOG_WRITER)


def _remedy_ahead(state: BarrierState, now_millis: int) -> Remedy:
    """Return REJOIN if other writers have kept the table at the barriers of now; otherwise it does not help."""
    is_table_ahead = is_ahead(state.frontier, now_millis + state.interval)
    return Remedy.NONE if is_table_ahead else Remedy.REJOIN


def _holders(state: BarrierState) -> set[str]:
    """Return the writers that keep the table from progressing.

    The set is empty if no writer is further than the table, because then nothing waits.
    """
    if _furthest(state) <= state.frontier:
        return set()
    return {name for name, member in state.members.items() if member.frontier == state.frontier}


def _furthest(state: BarrierState) -> int:
    return max(map(_latest, state.members.values()), default=0)


def _latest(member: Member) -> int:
    return max(member.frontier, member.last)
