"""What is unwise about the writers of a table under barriers. Pure.

In: the barriers of the table, now and `HELD_MILLIS` ago. Out: advice; nothing of a table whose writers keep pace, and
so many pieces at most.

    holds    the table has had records of later barriers, or writers that completed them, for that long, and was not
             complete up to them: barriers, changes and compactions wait for this writer, and expiry keeps what does
    silent   it has not been heard of for that long: no further barrier is complete until it comes back, or leaves
    ahead    barriers that the clock has not come to: rows of writers that go by the clock come behind them, and wait

Barriers may be numbers that a program counts, and no times: who holds is told from what was there, not from numbers.

    ten minutes ago    complete up to 20    a at 20    b at 40
    now                complete up to 20    a at 20    b at 60    a holds
    or now             complete up to 30    a at 30    b at 60    nobody: a goes on, if slowly

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

# Longer than a restart of a job takes, or a pause of its machine.
HELD_MILLIS: Final = 600_000
# Pieces of advice: of hundreds of writers that stand still the first say it.
_MOST: Final = 10


class Remedy(Enum):
    """What a command can do about a writer."""

    LEAVE = "it is waited for no more"
    MAINTAIN = "a maintainer is this writer: it widens the table"
    REJOIN = "its clock is set, it is waited for no more, and joins again"
    NONE = "nothing"


_ACTIONS: Final = {
    Remedy.LEAVE: "Let it complete its barriers, start it again, or let it leave if it does not come back.",
    Remedy.MAINTAIN: "Let a maintainer run for as long as the table is written; its log says why it does not widen.",
    Remedy.REJOIN: "Set the clock of its machine, or correct the barriers that it gives. Then stop the writer, let it "
    "leave, and start it again: it joins where the table is complete, and its new rows are in the barriers of now.",
    Remedy.NONE: "Set the clock of its machine, or correct the barriers that it gives. The table is complete up to "
    "there, which is not taken back: until then, give the barriers yourself (`barrier=`), each above the last one.",
}


@dataclass(frozen=True)
class BarrierAdvice:
    """writer: who it is about. The texts are those of a finding."""

    writer: str
    remedy: Remedy
    found: str
    expected: str
    concerned: str

    @property
    def action(self) -> str:
        """What to do, in words; `remedy` says which command does it."""
        return _ACTIONS[self.remedy]


def barrier_advice(
    state: BarrierState,
    before: BarrierState | None,
    now_millis: int,
    silent: Mapping[str, int] = MappingProxyType({}),
) -> tuple[BarrierAdvice, ...]:
    """By name, those that hold the table first. before: None where there was no table, or nothing is kept of it.
    silent: writers that are not heard of, and for how long, milliseconds.
    """
    return tuple(islice(_all_advice(state, before, now_millis, silent), _MOST))


def is_lost(silent_millis: int | None) -> bool:
    """Whether a writer has not been heard of for longer than a restart takes."""
    return silent_millis is not None and silent_millis > HELD_MILLIS


def _all_advice(
    state: BarrierState,
    before: BarrierState | None,
    now_millis: int,
    silent: Mapping[str, int],
) -> Iterator[BarrierAdvice]:
    members = sorted(state.members.items())
    # Where the table has gone on since, whoever held it then does so no more.
    held = _held(before) if before is not None and before.frontier == state.frontier else set()
    for name, member in members:
        if name in held and member.frontier == state.frontier:
            yield BarrierAdvice(
                name,
                Remedy.MAINTAIN if member.run == WIDENER_RUN else Remedy.LEAVE,
                f"barrier {member.frontier} for more than {duration_text(HELD_MILLIS)}, where the table has come to "
                f"{_furthest(state)}",
                "a writer that completes barriers, or one that has left",
                "barriers, changes, compactions and expiry of the table, which wait for it",
            )
        elif is_lost(silent.get(name)):
            yield BarrierAdvice(
                name,
                Remedy.LEAVE,
                f"barrier {member.frontier}, {last_seen_text(silent[name])}",
                "a writer that is there, or one that has left",
                "barriers of the table, none of which is complete any more until it comes back or leaves",
            )
    for name, member in members:
        # Who has completed the clock's barrier writes to the next one: an interval ahead is right.
        if is_ahead(_latest(member), now_millis + state.interval):
            yield BarrierAdvice(
                name,
                _remedy_ahead(state, now_millis),
                f"barrier {_latest(member)}, {duration_text(_latest(member) - now_millis)} ahead of this machine's "
                "clock",
                "barriers that are times up to now",
                "rows of writers that go by the clock, which wait until it is there",
            )


def _remedy_ahead(state: BarrierState, now_millis: int) -> Remedy:
    """Joining again helps where others have kept the table at the barriers of now."""
    is_table_ahead = is_ahead(state.frontier, now_millis + state.interval)
    return Remedy.NONE if is_table_ahead else Remedy.REJOIN


def _held(state: BarrierState) -> set[str]:
    """Who kept the table from going on.

    Nobody where no writer has come further: then there is nothing that waits.
    """
    if _furthest(state) <= state.frontier:
        return set()
    return {name for name, member in state.members.items() if member.frontier == state.frontier}


def _furthest(state: BarrierState) -> int:
    return max(map(_latest, state.members.values()), default=0)


def _latest(member: Member) -> int:
    return max(member.frontier, member.last)
