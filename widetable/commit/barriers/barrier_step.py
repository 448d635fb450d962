"""The effect of a commit on the barriers of a table, decided again after each snapshot. Pure.

    act        a writer that is no member   label                                    its frontier
    JOIN       joins, at F                  none                                     stays; its run is now this one
    WRITE      joins first                  given, else tick; raised if too low *    stays (the barrier is open)
    WRITE_ALL  joins first                  as for WRITE                             := label; stays if that was raised
    COMPLETE   joins first                  given, else tick; no-op if not above     := label
    LEAVE      no-op                        none                                     the table no longer waits for it
    REVISE     no-op                        given, if rows are left at level 0       of all members: := given
    BEGIN      (no writer) the table, which has rows, is put under barriers (`Level0Labels.begun`)
    * to the first barrier that is above the writer's frontier and not below its last label

F: the barrier up to which the table is complete. No writer runs ahead of the clock by itself: records of a second
commit within an interval stay open until the next one. A label is above the frontier of its writer, which is F or
above it: no record joins a complete barrier.
The labels of a writer never decrease. So its records have the same order by barrier as by commit, and no result depends
on which of them a compaction has taken. One exception: the clock of a writer ran ahead and was corrected, and the
writer has left and joined again. It joins at F, like a new writer, and its labels are lower than before. Its rows are
still right: a compaction leaves files that follow on waiting ones, and so takes fewer files until then.
A derived writer gives the barriers of its sources at which its records begin and end. They begin where its last commit
ended; otherwise another process uses its name. A derived writer that gives none has the records of its sources up to
its own barriers. A revision takes the table and all of its writers back; writers that began before it are refused from
then on (0046).

    interval 10                    label    a        b        F      (a, b: frontier/last)
    JOIN of a and b                -        0/0      0/0      0
    WRITE_ALL of a, barrier=10     10       10/10    0/0      0
    WRITE of b, tick=10            10       10/10    0/10     0
    WRITE_ALL of b, barrier=10     10       10/10    10/10    10
    WRITE_ALL of b, barrier=10     20       10/10    10/20    10     10 is complete: the label is 20, which is open
    WRITE of a, barrier=30         30       10/30    10/20    10
    COMPLETE of a, tick=20         20       20/30    10/20    10
    LEAVE of b                     -        20/30    -        20
    COMPLETE of a, tick=20         no-op: no snapshot

Source: rules R2, R4, R6, R10, R15 and R20 of docs/consistency.md. Raises ConflictError for a writer that a later
process has replaced or that was removed, and for a job whose span does not continue its last one; InvalidError for too
many writers and for a number that is no barrier.
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
from widetable.messages.error_code import ErrorCode
from widetable.schema.derived_options import WIDENER_OF, WIDENER_RUN

# Each snapshot of the table holds the state of all writers.
MAX_WRITERS: Final = 1024


class Act(Enum):
    """The act of a writer (or of the table: REVISE, BEGIN)."""

    JOIN = "the table waits for the writer from now on"
    WRITE = "records of a barrier that stays open"
    WRITE_ALL = "the last records of a barrier"
    COMPLETE = "no records; all records of the barrier are committed"
    LEAVE = "the table no longer waits for the writer"
    REVISE = "the table goes back to a barrier"
    BEGIN = "the table is under barriers from here on"


@dataclass(frozen=True)
class BarrierStep:
    """A requested act of a writer.

    writer: its name. run: its process. tick: the clock when it began, as a barrier. barrier: a barrier to use instead
    of tick. span: for a derived writer, the barriers of its sources after which its records begin and at which they
    end. begin_millis: when its batch was planned, if known. revision: the one that the table must have, None for any;
    for REVISE, the one that it gets. came: for REVISE, the derived writers whose records up to the barrier are
    committed; the others start again. is_member: the writer has joined; if the table does not list it, somebody else
    has removed it. is_derived: the writer has sources, as does one with a span.
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
    state: BarrierState, step: BarrierStep, *, has_files: bool = False
) -> dict[str, str] | None:
    """Return the barrier properties of the commit's snapshot; None for a no-op.

    has_files: whether the commit adds files at level 0, which then wait there.
    """
    stepped = _stepped(state, step)
    if stepped is None:
        return None
    after, label = stepped
    if has_files and label is not None:
        after = after.with_files(label)
    properties = {WRITER: step.writer, BARRIERS: after.to_json()}
    if step.begin_millis is not None:
        properties[BARRIER_BEGIN] = str(step.begin_millis)
    return properties if label is None else {**properties, BARRIER: str(label)}


def unchanged_properties(state: BarrierState, step: BarrierStep) -> dict[str, str]:
    """Return the barrier properties of a commit whose step is a no-op, but which says something else of its writer."""
    return {WRITER: step.writer, BARRIERS: state.to_json()}


# The state after the step and the label of its commit (None without a label); None for a no-op.
_Stepped = tuple[BarrierState, int | None] | None


def completed_by(state: BarrierState, step: BarrierStep) -> int | None:
    """Return the barrier that records complete after that state; None if their barrier stays open.

    Callers that must know before the commit use it (`operations/writes/staging.py`); the commit itself decides again
    after the snapshot that it follows.
    """
    stepped = _stepped(state, step)
    if stepped is None:
        return None
    after, label = stepped
    member = after.members.get(step.writer)
    return label if member is not None and member.frontier == label else None


def _stepped(state: BarrierState, step: BarrierStep) -> _Stepped:
    if step.barrier is not None:
        check_barrier(step.barrier, state.interval)
    if step.act is not Act.REVISE:
        check_name(step.writer, step.run)
        _check_revision(state, step)
    return _STEPS[step.act](state, step)


def _join(state: BarrierState, step: BarrierStep) -> _Stepped:
    """Give the name of a member to this run, which takes over the member's progress; no-op if this run has it already.

    The next step of the run before is refused.
    """
    current = state.members.get(step.writer)
    if current is not None and current.run == step.run:
        return None
    if current is not None:
        if (
            step.is_member
        ):  # this writer has joined before: another process has taken its name since
            check_run(current, step.writer, step.run)
        if step.span is not None:
            _check_span(current, step.span, step.writer)
        kind = DERIVED if step.is_derived else current.kind
        return state.with_member(step.writer, replace(current, run=step.run, kind=kind)), None
    joined, member = _as_member(state, step)
    return joined.with_member(step.writer, member), None


def _write(state: BarrierState, step: BarrierStep) -> _Stepped:
    state, member = _as_member(state, step)
    label, _ = _label(state, member, step)
    return state.with_member(step.writer, replace(member, last=max(member.last, label))), label


def _write_all(state: BarrierState, step: BarrierStep) -> _Stepped:
    """Commit the last records of a barrier; records that came too late for it complete none.

    The label of late records is the first open barrier, to which more records may follow.
    """
    state, member = _as_member(state, step)
    label, is_in_time = _label(state, member, step)
    frontier = label if is_in_time else member.frontier
    last = max(member.last, label)
    if step.span is None:
        after = replace(member, frontier=frontier, last=last)
        return state.with_member(step.writer, _at_frontier(after, step)), label
    _check_span(member, step.span, step.writer)
    after = replace(member, frontier=frontier, last=last, kind=DERIVED, at=step.span[1])
    return state.with_member(step.writer, after), label


def _complete(state: BarrierState, step: BarrierStep) -> _Stepped:
    state, member = _as_member(state, step)
    label = step.tick if step.barrier is None else step.barrier
    if label <= member.frontier:
        return None
    after = _at_frontier(replace(member, frontier=label), step)
    return state.with_member(step.writer, after), label


def _leave(state: BarrierState, step: BarrierStep) -> _Stepped:
    """Remove the writer if its run has the name; a writer that is no member has left already."""
    if step.writer not in state.members:
        return None
    check_run(state.members[step.writer], step.writer, step.run)
    return state.without_member(step.writer), None


def _revise(state: BarrierState, step: BarrierStep) -> _Stepped:
    """Take the table back; a revision that is repeated after its process was killed skips tables that are done."""
    if step.revision is None or step.revision <= state.revision:
        return None
    return state.revised(step.revision, step.barrier or 0, step.came), step.barrier


_STEPS: Final = {
    Act.JOIN: _join,
    Act.WRITE: _write,
    Act.WRITE_ALL: _write_all,
    Act.COMPLETE: _complete,
    Act.LEAVE: _leave,
    Act.REVISE: _revise,
}


def _label(state: BarrierState, member: Member, step: BarrierStep) -> tuple[int, bool]:
    """Return the label of records, and whether it is the requested one.

    interval 10: frontier 30, last 40, requested 30 → (40, False), 40 → (40, True), 50 → (50, True);
                 frontier 30, last 0, requested 20 → (40, False): 30 is complete for this writer.
    """
    requested = step.tick if step.barrier is None else step.barrier
    least = max(member.frontier + state.interval, member.last)
    return max(requested, least), requested >= least


def _as_member(state: BarrierState, step: BarrierStep) -> tuple[BarrierState, Member]:
    """Return the writer as a member; a new writer joins at the table's frontier, so no complete barrier opens again."""
    member = state.members.get(step.writer)
    if member is not None:
        check_run(member, step.writer, step.run)
        return state, replace(member, kind=DERIVED) if step.is_derived else member
    if step.is_member:
        raise ConflictError(
            f"writer {step.writer!r}",
            found="a writer that the table no longer waits for: somebody has dropped it, or let it leave",
            expected="a registered writer",
            action="Create the writer again, or restart its job, if it is to continue.",
        )
    if len(state.members) >= MAX_WRITERS:
        raise InvalidError(
            f"writer {step.writer!r}",
            found=f"{len(state.members):,} writers that the table waits for",
            expected=f"{MAX_WRITERS:,} at most",
            action="Let writers that have ended leave.",
        )
    kind = DERIVED if step.is_derived or step.span is not None else ROOT
    return state, Member(state.frontier, _last_label(state, step), step.run, kind)


def _last_label(state: BarrierState, step: BarrierStep) -> int:
    """Return the highest label that the writer left with, so that its labels do not decrease when it comes back.

    Return 0 for a new writer, and if only a wrong clock can have given that label: a root that labels by its clock
    would leave all of its barriers open until that time.

    interval 10, left with 86,400,010: tick 10 → 0, as for a new writer; tick 86,390,000 → 86,400,010
    """
    last = state.left.get(step.writer, 0)
    goes_by_clock = step.tick > 0 and step.barrier is None and step.span is None
    # A writer that has completed the clock's barrier writes to the next one: one interval ahead is right.
    wrong = is_ahead(last, step.tick + 2 * state.interval)
    return 0 if goes_by_clock and wrong and not step.is_derived else last


def _at_frontier(member: Member, step: BarrierStep) -> Member:
    """Set `at` of a derived writer without a span: it has the records of its sources up to its own barriers."""
    return replace(member, at=member.frontier) if step.is_derived else member


def _check_span(member: Member, span: tuple[int, int], writer: str) -> None:
    """Refuse records that do not begin where the last ones of this job ended.

    Two queries of one name, or one with an old checkpoint, would repeat some records or skip some.
    """
    if member.at not in (None, span[0]):
        raise ConflictError(
            f"job {writer!r}",
            found=f"records after barrier {span[0]} of its sources; the table has its records up to {member.at}",
            expected=f"records after {member.at}",
            action="Stop all of its queries but one; start a query whose checkpoint is old with a new checkpoint.",
        )


def check_name(writer: str, run: str) -> None:
    """Refuse a name that is reserved for wideners."""
    if writer.startswith(WIDENER_OF) and run != WIDENER_RUN:
        raise InvalidError(
            f"writer {writer!r}",
            found=f"a name that begins with {WIDENER_OF}",
            expected="a name without that prefix, which is reserved for the wideners of tables",
            action="Choose another name.",
        )


def _check_revision(state: BarrierState, step: BarrierStep) -> None:
    if step.revision not in (None, state.revision):
        raise ConflictError(
            f"writer {step.writer!r}",
            found=f"a run that began at revision {step.revision} of the table, which is at {state.revision} now",
            expected=f"a run that began at revision {state.revision}",
            action="When the revision has ended, start jobs with a new checkpoint and create other writers again: they "
            "continue from the barrier that the table went back to.",
            code=ErrorCode.REVISION_BEGAN,
        )


def check_run(member: Member, writer: str, run: str) -> None:
    """Refuse a process whose writer name another process has taken."""
    if member.run != run:
        raise ConflictError(
            f"writer {writer!r}",
            found="another process that has taken its name since",
            expected="one process for each name",
            action="Stop this process, or create its writer again, which stops the other.",
            code=ErrorCode.WRITER_REPLACED,
        )
