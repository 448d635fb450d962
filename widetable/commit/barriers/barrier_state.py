"""What a snapshot of a table under barriers says of them: who is waited for, and how far each has come (0041).

A barrier is a moment, epoch milliseconds, a multiple of the table's interval. Each commit of a writer has a label: the
barrier that its records belong to. On disk: never change

    widetable.writer   = who committed; of an append of ours, also of one without files
    widetable.barrier  = its label, decimal; not there where a writer only joins or leaves
    widetable.barrier-begin = when the batch was planned, epoch milliseconds, decimal; only where its writer says it
    widetable.barriers = JSON object, copied from snapshot to snapshot:
                         {"interval", "revision": the last one that took the table back, 0 for none (0046),
                          "frontier": the barrier up to which the table is complete, "highest": the highest label of a
                          record, "moved": that of the records above level 0, "waiting": the lowest label of a file at
                          level 0, null without any, "left": {name of one that is waited for no more: its highest
                          label, while that is not complete}, "writers": {name: {"frontier": all of its records with
                          labels up to here are in, "last": its highest label, "kind": "root" or "derived", "run":
                          which of its processes may commit, "at": of a derived one, the barrier of its sources up to
                          which its records are in, null for none}}}; of a table that had snapshots when it was put
                          under barriers, also "since": the id of the first snapshot that says barriers, and "first":
                          the first barrier up to which it was complete, 0 until there is one (0064)

Source: FLIP-276; rules R1, R2, R4, R10, R15 of docs/consistency.md. Pure, but for loading snapshots of other clients,
which say nothing: each append of theirs counts as the first barrier that was not complete before it, each compaction
as one of all that there is:

    snapshot                                        frontier  highest  moved  waiting
    4  ours, says so                                      20       30     10       20
    5  an append of another client: its label is 30       20       30     10       20
    6  a compaction of another client                     20       30     30       20, or less: looked up

(`level0_labels` looks up what waits.) A snapshot of ours that says no barriers is from before the table was put under
them: all that there is then counts as the lowest barrier there can be, which is complete with the first one.
Raises DamagedError for a property of another form, NotFoundError where the last snapshot that says it has expired.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from widetable.commit.snapshots.committed import Load, before, damaged_property, decimal, remembers
from widetable.errors import InvalidError, NotFoundError
from widetable.format.snapshot import COMMIT_KIND_COMPACT, Snapshot

WRITER: Final = "widetable.writer"
BARRIER: Final = "widetable.barrier"
BARRIERS: Final = "widetable.barriers"
BARRIER_BEGIN: Final = "widetable.barrier-begin"
ROOT: Final = "root"
DERIVED: Final = "derived"
# Of the property, in its order, before the writers.
_SAID: Final = ("interval", "revision", "frontier", "highest", "moved", "waiting", "left")
# Only of a table that was put under barriers when it had snapshots.
_BEGINNING: Final = ("since", "first")
_FORM: Final = '{"interval", "revision", "frontier", "highest", "moved", "waiting", "writers"}'
# What waits at level 0 where nobody says it: a label that is lower than any. Snapshots of
# versions before say nothing.
UNKNOWN: Final = 0


@dataclass(frozen=True)
class Member:
    """A writer that the table waits for. frontier: it has completed this barrier and all before. last: its highest
    label. run: the process that speaks for it. at: of a derived one, up to which barrier of its sources its records are
    in; None for none.
    """

    frontier: int
    last: int
    run: str
    kind: str = ROOT
    at: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Of the property."""
        names = ("frontier", "last", "kind", "run", *(("at",) if self.kind == DERIVED else ()))
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class BarrierState:
    """frontier: complete up to here; goes back by a revision only. highest: no record of the table has a label above
    it. moved: no record above level 0 has. waiting: the lowest label of a file at level 0, None without any; or less,
    where another client has compacted since, and UNKNOWN. left: who is waited for no more and has records of barriers
    that are not complete, with its highest label. revision: the last one that took the table back. since, first: of a
    table that was put under barriers later, the first snapshot that says them, and the first complete barrier, to which
    all rows of before belong; 0 of one that was made under barriers, and first until there is one.

    A value: each step makes another one (`barrier_step`). What is parsed is shared: nobody may change
    its maps.
    """

    interval: int
    frontier: int
    highest: int
    members: Mapping[str, Member]
    moved: int = 0
    waiting: int | None = None
    left: Mapping[str, int] = field(default_factory=dict)
    revision: int = 0
    since: int = 0
    first: int = 0

    @staticmethod
    def new(interval: int) -> BarrierState:
        """Of a table that nobody has written to."""
        return BarrierState(interval, 0, 0, {})

    @staticmethod
    def begun(interval: int, since: int, waiting: int | None = UNKNOWN) -> BarrierState:
        """Of a table that has rows, and is put under barriers by the snapshot `since`."""
        return BarrierState(interval, 0, interval, {}, interval, waiting, since=since)

    def with_member(self, writer: str, member: Member) -> BarrierState:
        """The same with what a writer has come to.
        One that had left is back, and its labels are its own again.
        """
        members = {**self.members, writer: member}
        left = {name: last for name, last in self.left.items() if name != writer}
        highest = max(self.highest, member.last)
        return replace(self, members=members, left=left, highest=highest)._with_frontier()

    def without_member(self, writer: str) -> BarrierState:
        """Nobody waits for it any more.

        So the frontier may move. Its highest label is kept while that is open: if it comes back it goes on
        from there, or its later records would come to an earlier barrier than its first ones.
        """
        members = {name: member for name, member in self.members.items() if name != writer}
        left = {**self.left, writer: self.members[writer].last}
        return replace(self, members=members, left=left)._with_frontier()

    def with_files(self, label: int) -> BarrierState:
        """After files of that label came to level 0."""
        waiting = label if self.waiting is None else min(self.waiting, label)
        return replace(self, waiting=waiting, highest=max(self.highest, label))

    def revised(self, revision: int, barrier: int, came: Collection[str]) -> BarrierState:
        """After a revision that leaves the rows as of a barrier, 0 for none, before its files come to level 0. came:
        the derived members that have records up to it.
        """
        members = {
            name: Member(
                barrier, barrier, member.run, member.kind, barrier if name in came else None
            )
            for name, member in self.members.items()
        }
        return replace(
            BarrierState.new(self.interval),
            frontier=barrier,
            highest=barrier,
            members=members,
            moved=barrier,
            revision=revision,
            since=self.since,
            first=self.first,
        )

    def with_foreign(self, snapshot: Snapshot) -> BarrierState:
        """After a snapshot of a client that knows nothing of barriers.
        What it compacted is not looked at: it may have moved all there was. `waiting` stays, too
        low at worst, which only makes somebody look for what is not there.
        """
        if snapshot.commit_kind == COMMIT_KIND_COMPACT:
            return replace(self, moved=self.highest)
        return self.with_files(self.foreign_label)

    @property
    def foreign_label(self) -> int:
        """The label of records that have none: no complete barrier gets them."""
        return self.frontier + self.interval

    def behind(self, barrier: int) -> dict[str, int]:
        """Who has not completed that barrier, and how far each is."""
        return {
            name: member.frontier
            for name, member in sorted(self.members.items())
            if member.frontier < barrier
        }

    def to_json(self) -> str:
        """The property."""
        names = (*_SAID, *(_BEGINNING if self.since else ()))
        said = {name: getattr(self, name) for name in names}
        said["writers"] = {name: member.to_json() for name, member in self.members.items()}
        return json.dumps(said, separators=(",", ":"), ensure_ascii=False)

    def _with_frontier(self) -> BarrierState:
        """As far as the slowest member, and never back: who joins does so at the frontier, and
        without members it stays where it is. Who left is forgotten once the table is complete up
        to its highest label.
        """
        least = min((member.frontier for member in self.members.values()), default=self.frontier)
        frontier = max(self.frontier, least)
        left = {name: last for name, last in self.left.items() if last > frontier}
        first = self.first or (frontier if self.since else 0)
        return replace(self, frontier=frontier, left=left, first=first)


def check_barrier(barrier: int, interval: int) -> None:
    """Raises InvalidError for a number that is no barrier of the interval."""
    if barrier < interval or barrier % interval:
        raise InvalidError(
            "barrier",
            found=str(barrier),
            expected=f"a positive multiple of the table's interval of {interval} ms",
            action="Correct the argument.",
        )


def state_at(snapshot: Snapshot | None, load: Load, interval: int) -> BarrierState:
    """The barriers as of a snapshot, None for a table without one. load: a snapshot by id.

    One look where the snapshot is ours; otherwise back over those of other clients, which are
    then added again, oldest first. A table that only others have written to begins with nothing,
    if its first snapshot is still there. Behind a snapshot of ours of before the table was under
    barriers it is as if they began with the next one.
    """
    passed, said = _back_to_ours(snapshot, load)
    if said is not None and BARRIERS in said.properties:
        state = _parsed(said.properties[BARRIERS], said.id)
    elif said is not None:
        return BarrierState.begun(interval, (passed[0] if passed else said).id + 1)
    elif not passed or passed[-1].id == 1:
        state = BarrierState.new(interval)
    else:
        raise _unknown(passed[0].id, passed[-1].id)
    for one in reversed(passed):
        state = state.with_foreign(one)
    return state


def says_barriers(snapshot: Snapshot | None, load: Load) -> bool:
    """Whether a snapshot, or one that is kept before it, says barriers."""
    _, said = _back_to_ours(snapshot, load)
    return said is not None and BARRIERS in said.properties


def _back_to_ours(snapshot: Snapshot | None, load: Load) -> tuple[list[Snapshot], Snapshot | None]:
    """The newest kept snapshot of ours up to one, None without; and those of other clients behind it, newest first."""
    passed: list[Snapshot] = []
    while snapshot is not None and not (BARRIERS in snapshot.properties or remembers(snapshot)):
        passed.append(snapshot)
        snapshot = before(snapshot, load)
    return passed, snapshot


def is_foreign_commit(snapshot: Snapshot) -> bool:
    """Whether it may have brought records, and does not say of which barrier."""
    return BARRIERS not in snapshot.properties and snapshot.commit_kind != COMMIT_KIND_COMPACT


def label_of(snapshot: Snapshot, load: Load, interval: int) -> int | None:
    """Return the barrier that the records of a snapshot belong to; None when it brought none.

    Raises NotFoundError for a snapshot of another client that follows on expired ones: nobody knows.
    """
    text = snapshot.properties.get(BARRIER)
    if text is not None:
        return decimal(text, snapshot.id, BARRIER)
    if not is_foreign_commit(snapshot):
        return None
    previous = before(snapshot, load)
    if previous is None and snapshot.id > 1:
        raise _unknown(snapshot.id, snapshot.id)
    return state_at(previous, load, interval).foreign_label


def _unknown(snapshot_id: int, oldest_id: int) -> NotFoundError:
    return NotFoundError(
        f"barriers of snapshot {snapshot_id}",
        found=f"other clients' snapshots from {oldest_id} on, and none before them",
        expected="a kept snapshot of this client, which says how far each writer is",
        action="Read a newer snapshot. If there is none: if the table was being put under barriers, set the "
        "option again; else copy the table, as an expiry has removed what they rest on.",
    )


# A commit and the look before it, a session and its bisection ask for the same few snapshots.
@lru_cache(maxsize=64)
def _parsed(text: str, snapshot_id: int) -> BarrierState:
    """What older versions leave out is taken for the least that is safe: all may have moved,
    anything may wait.
    """
    try:
        body = json.loads(text)
        numbers = [body[name] for name in ("interval", "frontier", "highest")]
        numbers += [body.get("moved", numbers[-1]), body.get("revision", 0)]
        numbers += [body.get(name, 0) for name in _BEGINNING]
        waiting, left = body.get("waiting", UNKNOWN), body.get("left", {})
        members = {name: _member(entry) for name, entry in body["writers"].items()}
        if not all(type(n) is int for n in (*numbers, waiting or 0, *left.values())):
            raise ValueError(text)
        if numbers[0] < 1:
            raise ValueError(text)
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise damaged_property(snapshot_id, BARRIERS, text, _FORM) from cause
    interval, frontier, highest, moved, revision, since, first = numbers
    return BarrierState(
        interval, frontier, highest, members, moved, waiting, left, revision, since, first
    )


def _member(entry: Any) -> Member:
    """Raises ValueError, TypeError or KeyError for another form; the caller names property and
    snapshot.
    """
    numbers, texts = (entry["frontier"], entry["last"]), (entry["run"], entry["kind"])
    if not all(type(number) is int for number in numbers):
        raise ValueError(entry)
    at = entry.get("at")
    if not all(isinstance(text, str) for text in texts) or type(at) not in (int, type(None)):
        raise ValueError(entry)
    return Member(*numbers, *texts, at)
