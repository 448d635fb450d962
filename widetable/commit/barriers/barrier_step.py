"""What a commit does to the barriers of a table, decided anew behind each snapshot. Pure.

    act        who is no member      label                                    its frontier
    JOIN       becomes one, at F     none                                     stays; its run is now this one
    WRITE      joins first           given or tick, if above its frontier     stays (the barrier is open)
    WRITE_ALL  joins first           and not below its last; else the first   := label
                                     one that is: open
    COMPLETE   joins first           given, else tick; nothing if not above   := label
    LEAVE      nothing               none                                     it is waited for no more
    REVISE     nothing               given, if rows are left at level 0       of all members: := given
    BEGIN      of no writer: the table, which has rows, is put under barriers (`Level0Labels.begun`)

Nobody goes ahead of the clock by itself: what is written twice within an interval stays open
until the next one. F: the barrier up to which the table is complete. A label is above the
frontier of its writer, which is F or above it: no record comes to a barrier that is complete.
Labels of a writer never go back. So its records are in the order of barriers as in that of
commits, and nothing depends on which of them a compaction has taken. One exception: the clock of a
writer ran ahead and was mended, and the writer has left and joined again. It joins at F, as a new
writer does, and its labels are lower than before. Its rows are right all the same: a compaction
leaves what follows on files that wait, and so takes less until then.
A derived writer says by which barrier of its sources it begins and ends: it goes on where its last
commit ended, or somebody else has its name. One that does not say it has of its sources what is of its own
barriers. A revision takes the table back, and all of its writers; those that began before it are
refused from then on (0046).

    interval 10                    label    a        b        F      (a, b: frontier/last)
    JOIN of a and b                -        0/0      0/0      0
    WRITE_ALL of a, barrier=10     10       10/10    0/0      0
    WRITE of b, tick=10            10       10/10    0/10     0
    WRITE_ALL of b, barrier=10     10       10/10    10/10    10
    WRITE_ALL of b, barrier=10     20       10/10    10/20    10     10 is complete: these are of 20, which is open
    WRITE of a, barrier=30         30       10/30    10/20    10
    COMPLETE of a, tick=20         20       20/30    10/20    10
    LEAVE of b                     -        20/30    -        20
    COMPLETE of a, tick=20         nothing to do: no snapshot

Source: rules R2, R4, R6, R10, R15 and R20 of docs/consistency.md. Raises ConflictError for a writer whose place a
later process has taken, or that was let go, and for a job that is elsewhere; InvalidError for too many writers and for
a barrier that is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from widetable.commit.barriers.barrier_state import (
    BARRIER,
    BARRIER_BEGIN,
    BARRIERS,
    DERIVED,
    ROOT,
    WRITER,
    BarrierState,
    Member,
    check_barrier,
)
from widetable.commit.snapshots.snapshot_times import is_ahead
from widetable.errors import ConflictError, InvalidError
from widetable.schema.derived_options import WIDENER_OF, WIDENER_RUN

# Each snapshot of the table holds the state of all of them.
MOST_WRITERS: Final = 1024


class Act(Enum):
    """What a writer does."""

    JOIN = "it is waited for from now on"
    WRITE = "records, of a barrier that it goes on with"
    WRITE_ALL = "records, and with them all of the barrier"
    COMPLETE = "no records, and all of the barrier is in"
    LEAVE = "it is waited for no more"
    REVISE = "the table goes back to a barrier"
    BEGIN = "the table is under barriers from here on"


@dataclass(frozen=True)
class BarrierStep:
    """writer: its name. run: its process. tick: the clock when it began, as a barrier. barrier: given instead. span:
    of a derived writer, the barriers of its sources after which its records begin and at which they end. begin_millis:
    when its batch was planned, if it says that. revision: that the table must have, None for any; of REVISE, the one
    that it gets. came: of REVISE, the derived writers whose records up to the barrier are in; the others begin anew.
    is_member: it has joined; where it is none by now, somebody else has let it leave, so it is registered no more.
    is_derived: it has sources; one with a span has.
    """

    act: Act
    writer: str
    run: str
    tick: int = 0
    barrier: int | None = None
    span: tuple[int, int] | None = None
    begin_millis: int | None = None
    revision: int | None = None
    came: frozenset[str] = frozenset()
    is_member: bool = False
    is_derived: bool = False


def properties_after(
    state: BarrierState, asked: BarrierStep, *, has_files: bool = False
) -> dict[str, str] | None:
    """What the snapshot of the commit says; None when there is nothing to do. has_files: whether it adds some.

    Those at level 0 count, since they wait there.
    """
    found = _stepped(state, asked)
    if found is None:
        return None
    after, label = found
    if has_files and label is not None:
        after = after.with_files(label)
    said = {WRITER: asked.writer, BARRIERS: after.to_json()}
    if asked.begin_millis is not None:
        said[BARRIER_BEGIN] = str(asked.begin_millis)
    return said if label is None else {**said, BARRIER: str(label)}


# The state after the step and the label of its commit, None for one without; None: nothing is to
# be committed.
_Stepped = tuple[BarrierState, int | None] | None


def completed_by(state: BarrierState, asked: BarrierStep) -> int | None:
    """The barrier that records complete behind that state; None where they leave theirs open.
    For who must know before the commit (`operations/writes/staging.py`): the commit itself asks again,
    behind the snapshot that it really follows.
    """
    found = _stepped(state, asked)
    if found is None:
        return None
    after, label = found
    member = after.members.get(asked.writer)
    return label if member is not None and member.frontier == label else None


def _stepped(state: BarrierState, asked: BarrierStep) -> _Stepped:
    if asked.barrier is not None:
        check_barrier(asked.barrier, state.interval)
    if asked.act is not Act.REVISE:
        check_name(asked.writer, asked.run)
        _check_revision(state, asked)
    return _STEPS[asked.act](state, asked)


def _join(state: BarrierState, asked: BarrierStep) -> _Stepped:
    """A name that is a member goes over to this run, with all that it has come to; the run before
    is refused by its next step. Nothing to do where this run has it already.
    """
    known = state.members.get(asked.writer)
    if known is not None and known.run == asked.run:
        return None
    if known is not None:
        if asked.is_member:  # it has joined before: the name is another process's by now
            check_run(known, asked.writer, asked.run)
        if asked.span is not None:
            _check_span(known, asked.span, asked.writer)
        kind = DERIVED if asked.is_derived else known.kind
        return state.with_member(asked.writer, replace(known, run=asked.run, kind=kind)), None
    joined, member = _as_member(state, asked)
    return joined.with_member(asked.writer, member), None


def _write(state: BarrierState, asked: BarrierStep) -> _Stepped:
    state, member = _as_member(state, asked)
    label, _ = _label(state, member, asked)
    return state.with_member(asked.writer, replace(member, last=max(member.last, label))), label


def _write_all(state: BarrierState, asked: BarrierStep) -> _Stepped:
    """Records that came too late for the barrier that they were meant for complete none: theirs
    is the first open one, and more of it may follow.
    """
    state, member = _as_member(state, asked)
    label, is_in_time = _label(state, member, asked)
    frontier = label if is_in_time else member.frontier
    last = max(member.last, label)
    if asked.span is None:
        after = replace(member, frontier=frontier, last=last)
        return state.with_member(asked.writer, _at_frontier(after, asked)), label
    _check_span(member, asked.span, asked.writer)
    after = replace(member, frontier=frontier, last=last, kind=DERIVED, at=asked.span[1])
    return state.with_member(asked.writer, after), label


def _complete(state: BarrierState, asked: BarrierStep) -> _Stepped:
    state, member = _as_member(state, asked)
    label = asked.tick if asked.barrier is None else asked.barrier
    if label <= member.frontier:
        return None
    after = _at_frontier(replace(member, frontier=label), asked)
    return state.with_member(asked.writer, after), label


def _leave(state: BarrierState, asked: BarrierStep) -> _Stepped:
    """Only the run that has the name may let it go; one that is no member has left."""
    if asked.writer not in state.members:
        return None
    check_run(state.members[asked.writer], asked.writer, asked.run)
    return state.without_member(asked.writer), None


def _revise(state: BarrierState, asked: BarrierStep) -> _Stepped:
    """A revision that is asked for again, after its process was killed, finds the tables that it
    has done already.
    """
    if asked.revision is None or asked.revision <= state.revision:
        return None
    return state.revised(asked.revision, asked.barrier or 0, asked.came), asked.barrier


_STEPS: Final = {
    Act.JOIN: _join,
    Act.WRITE: _write,
    Act.WRITE_ALL: _write_all,
    Act.COMPLETE: _complete,
    Act.LEAVE: _leave,
    Act.REVISE: _revise,
}


def _label(state: BarrierState, member: Member, asked: BarrierStep) -> tuple[int, bool]:
    """The label of records, and whether it is the one that their writer meant.

    interval 10: frontier 30, last 40, wanted 30 → (40, False), 40 → (40, True), 50 → (50, True);
                 frontier 30, last 0, wanted 20 → (40, False): 30 is complete for this writer.
    """
    wanted = asked.tick if asked.barrier is None else asked.barrier
    least = max(member.frontier + state.interval, member.last)
    return max(wanted, least), wanted >= least


def _as_member(state: BarrierState, asked: BarrierStep) -> tuple[BarrierState, Member]:
    """Who is none becomes one where the table is complete: no finished barrier opens again."""
    known = state.members.get(asked.writer)
    if known is not None:
        check_run(known, asked.writer, asked.run)
        return state, replace(known, kind=DERIVED) if asked.is_derived else known
    if asked.is_member:
        raise ConflictError(
            f"writer {asked.writer!r}",
            found="that the table waits for it no more: somebody has dropped it, or let it leave",
            expected="a writer that is registered",
            action="Make the writer anew, or start its job again, if it goes on after all.",
        )
    if len(state.members) >= MOST_WRITERS:
        raise InvalidError(
            f"writer {asked.writer!r}",
            found=f"{len(state.members):,} writers that the table waits for",
            expected=f"{MOST_WRITERS:,} at most",
            action="Let writers that have ended leave.",
        )
    kind = DERIVED if asked.is_derived or asked.span is not None else ROOT
    return state, Member(state.frontier, _last_label(state, asked), asked.run, kind)


def _last_label(state: BarrierState, asked: BarrierStep) -> int:
    """One that comes back has the highest label that it left with, so its labels do not go back, unless only a wrong
    clock can have given that: a root that goes by its clock would leave all of its barriers open until that time.

    interval 10, left with 86,400,010: tick 10 → 0, as a new one; tick 86,390,000 → 86,400,010
    """
    last = state.left.get(asked.writer, 0)
    goes_by_clock = asked.tick > 0 and asked.barrier is None and asked.span is None
    # Who has completed the clock's barrier writes to the next one: an interval ahead is right.
    wrong = is_ahead(last, asked.tick + 2 * state.interval)
    return 0 if goes_by_clock and wrong and not asked.is_derived else last


def _at_frontier(member: Member, asked: BarrierStep) -> Member:
    """Of a derived writer without a span.

    What it has of its sources is what is of its own barriers.
    """
    return replace(member, at=member.frontier) if asked.is_derived else member


def _check_span(member: Member, span: tuple[int, int], writer: str) -> None:
    """The records must begin where the last ones of this job ended: two queries of one name, or
    one with an old checkpoint, would bring some twice or leave some out.
    """
    if member.at not in (None, span[0]):
        raise ConflictError(
            f"job {writer!r}",
            found=f"records after barrier {span[0]} of its sources; the table has its records up to {member.at}",
            expected=f"those after {member.at}",
            action="Stop all of its queries but one; one whose checkpoint is old starts with a new checkpoint.",
        )


def check_name(writer: str, run: str) -> None:
    """Refuse a name that is kept for wideners."""
    if writer.startswith(WIDENER_OF) and run != WIDENER_RUN:
        raise InvalidError(
            f"writer {writer!r}",
            found=f"a name that begins with {WIDENER_OF}",
            expected="another one: so are the wideners of tables called",
            action="Choose another name.",
        )


def _check_revision(state: BarrierState, asked: BarrierStep) -> None:
    if asked.revision not in (None, state.revision):
        raise ConflictError(
            f"writer {asked.writer!r}",
            found=f"one that began at revision {asked.revision} of the table, which is at {state.revision} now",
            expected="a run that knows of it",
            action="Start a job with a new checkpoint when the revision has ended, and make other writers anew: they "
            "go on where the table went back to.",
        )


def check_run(known: Member, writer: str, run: str) -> None:
    """Refuse a process whose name another one has by now."""
    if known.run != run:
        raise ConflictError(
            f"writer {writer!r}",
            found="another process that has taken its name since",
            expected="one process for each name",
            action="Stop this one, or make its writer anew, which stops the other.",
        )
