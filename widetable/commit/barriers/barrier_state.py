"""The state of the barriers in a snapshot: which writers the table waits for, and how far each has come (0041).

A barrier is a moment, epoch milliseconds, a multiple of the table's interval. Each commit of a writer has a label: the
barrier that its records belong to. On disk: never change

    widetable.writer   = name of the writer that committed; in each append of ours, also in one without files
    widetable.barrier  = its label, decimal; absent if a writer only joins or leaves
    widetable.barrier-begin = when the batch was planned, epoch milliseconds, decimal; absent if the writer gives none
    widetable.barriers = JSON object, copied from snapshot to snapshot:
                         {"interval", "revision": the last one that took the table back, 0 for none (0046),
                          "frontier": the barrier up to which the table is complete, "highest": the highest label of a
                          record, "moved": the highest label of a record above level 0, "waiting": the lowest label of
                          a file at level 0, null without any, "left": {name of a writer that the table no longer
                          waits for: its highest label, while that barrier is not complete}, "writers": {name:
                          {"frontier": all of its records with labels up to this one are committed, "last": its highest
                          label, "kind": "root" or "derived", "run": which of its processes may commit, "at": for a
                          derived writer, the barrier of its sources up to which its records are committed, null for
                          none}}}; a table that had snapshots when it was put under barriers also has "since": the id
                          of the first snapshot with barriers, and "first": the first barrier up to which the table
                          was complete, 0 until there is one (0064)

Source: FLIP-276; rules R1, R2, R4, R10, R15 of docs/consistency.md. Pure, except that it loads snapshots of other
clients. These have no such properties: each of their appends counts as the first barrier that was not complete before
it, and each of their compactions as one of all files:

    snapshot                                        frontier  highest  moved  waiting
    4  ours, with the property                            20       30     10       20
    5  an append of another client: its label is 30       20       30     10       20
    6  a compaction of another client                     20       30     30       20, or less: looked up

(`level0_labels` looks up the lowest label that waits.) A snapshot of ours without the property is from before the table
was put under barriers. All records up to it count as the lowest possible barrier, which is complete as soon as any is.
Raises DamagedError for a property of another form, NotFoundError if the last snapshot that has it has expired.
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
# The keys of the property before "writers", in the order on disk.
_KEYS: Final = ("interval", "revision", "frontier", "highest", "moved", "waiting", "left")
# Keys that only a table has that was put under barriers when it had snapshots.
_BEGINNING: Final = ("since", "first")
_FORM: Final = '{"interval", "revision", "frontier", "highest", "moved", "waiting", "writers"}'
# The value of `waiting` where it is not known, as in snapshots of older versions: a label that is lower than any.
UNKNOWN: Final = 0


@dataclass(frozen=True)
class Member:
    """A writer that the table waits for. frontier: it has completed this barrier and all before. last: its highest
    label. run: the process that may commit for it. at: for a derived writer, the barrier of its sources up to which its
    records are committed; None for none.
    """

    frontier: int
    last: int
    run: str
    kind: str = ROOT
    at: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the writer's value in the property."""
        names = ("frontier", "last", "kind", "run", *(("at",) if self.kind == DERIVED else ()))
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class BarrierState:
    """The barriers of a table as of a snapshot.

    frontier: the table is complete up to this barrier; only a revision lowers it. highest: no record of the table has a
    label above it. moved: no record above level 0 has a label above it. waiting: the lowest label of a file at level 0,
    None without any; a lower bound if another client has compacted since, or UNKNOWN. left: writers that the table no
    longer waits for and that have records of incomplete barriers, each with its highest label. revision: the last one
    that took the table back. since, first: for a table that had rows when it was put under barriers, the first
    snapshot with barriers, and the first complete barrier, to which all earlier rows belong (0 until there is one);
    both are 0 for other tables.

    Immutable: each step makes a new value (`barrier_step`). Parsed values are shared, so their maps must not be
    changed.
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
        """Return the state of a table without commits."""
        return BarrierState(interval, 0, 0, {})

    @staticmethod
    def begun(interval: int, since: int, waiting: int | None = UNKNOWN) -> BarrierState:
        """Return the state of a table that has rows and that the snapshot `since` puts under barriers."""
        return BarrierState(interval, 0, interval, {}, interval, waiting, since=since)

    def with_member(self, writer: str, member: Member) -> BarrierState:
        """Return a state in which `writer` is this member; a writer that had left is no longer listed in `left`."""
        members = {**self.members, writer: member}
        left = {name: last for name, last in self.left.items() if name != writer}
        highest = max(self.highest, member.last)
        return replace(self, members=members, left=left, highest=highest)._with_frontier()

    def without_member(self, writer: str) -> BarrierState:
        """Return a state in which the table no longer waits for `writer`, so the frontier may advance.

        The highest label of the writer is kept while that barrier is incomplete. A writer that comes back continues
        from there; otherwise its later records would belong to an earlier barrier than its first ones.
        """
        members = {name: member for name, member in self.members.items() if name != writer}
        left = {**self.left, writer: self.members[writer].last}
        return replace(self, members=members, left=left)._with_frontier()

    def with_files(self, label: int) -> BarrierState:
        """Return the state after files with that label were added to level 0."""
        waiting = label if self.waiting is None else min(self.waiting, label)
        return replace(self, waiting=waiting, highest=max(self.highest, label))

    def revised(self, revision: int, barrier: int, came: Collection[str]) -> BarrierState:
        """Return the state after a revision that leaves the rows as of a barrier (0: no rows), before its files are
        added to level 0. came: the derived members that have records up to the barrier.
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
        """Return the state after a snapshot of a client that does not support barriers.

        Which files it compacted is not read: it may have moved all of them. `waiting` stays; at worst it is too low,
        which costs a lookup.
        """
        if snapshot.commit_kind == COMMIT_KIND_COMPACT:
            return replace(self, moved=self.highest)
        return self.with_files(self.foreign_label)

    @property
    def foreign_label(self) -> int:
        """The label of records without one, above all complete barriers."""
        return self.frontier + self.interval

    def behind(self, barrier: int) -> dict[str, int]:
        """Return the members that have not completed that barrier, each with its frontier."""
        return {
            name: member.frontier
            for name, member in sorted(self.members.items())
            if member.frontier < barrier
        }

    def to_json(self) -> str:
        """Return the value of the property `widetable.barriers`."""
        names = (*_KEYS, *(_BEGINNING if self.since else ()))
        values = {name: getattr(self, name) for name in names}
        values["writers"] = {name: member.to_json() for name, member in self.members.items()}
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False)

    def _with_frontier(self) -> BarrierState:
        """Advance the frontier to that of the slowest member, never back; without members it stays.

        Writers join at the frontier. A writer that left is dropped from `left` once the table is complete up to its
        highest label.
        """
        least = min((member.frontier for member in self.members.values()), default=self.frontier)
        frontier = max(self.frontier, least)
        left = {name: last for name, last in self.left.items() if last > frontier}
        first = self.first or (frontier if self.since else 0)
        return replace(self, frontier=frontier, left=left, first=first)


def check_barrier(barrier: int, interval: int) -> None:
    """Raise InvalidError for a number that is no barrier of the interval."""
    if barrier < interval or barrier % interval:
        raise InvalidError(
            "barrier",
            found=str(barrier),
            expected=f"a positive multiple of the table's interval of {interval} ms",
            action="Correct the argument.",
        )


def state_at(snapshot: Snapshot | None, load: Load, interval: int) -> BarrierState:
    """Return the barriers as of a snapshot, None for a table without one. load: returns a snapshot by id.

    A snapshot of ours is read at once. Otherwise this goes back over the snapshots of other clients and applies them,
    oldest first. A table that only other clients have written to begins with an empty state if its first snapshot
    still exists. After a snapshot of ours from before the table was under barriers, they begin with the next one.
    """
    foreign, ours = _back_to_ours(snapshot, load)
    if ours is not None and BARRIERS in ours.properties:
        state = _parsed(ours.properties[BARRIERS], ours.id)
    elif ours is not None:
        return BarrierState.begun(interval, (foreign[0] if foreign else ours).id + 1)
    elif not foreign or foreign[-1].id == 1:
        state = BarrierState.new(interval)
    else:
        raise _unknown(foreign[0].id, foreign[-1].id)
    for one in reversed(foreign):
        state = state.with_foreign(one)
    return state


def says_barriers(snapshot: Snapshot | None, load: Load) -> bool:
    """Return whether a snapshot, or a kept one before it, has the property `widetable.barriers`."""
    _, ours = _back_to_ours(snapshot, load)
    return ours is not None and BARRIERS in ours.properties


def _back_to_ours(snapshot: Snapshot | None, load: Load) -> tuple[list[Snapshot], Snapshot | None]:
    """Return the snapshots of other clients up to `snapshot`, newest first, and the kept one of ours before them."""
    foreign: list[Snapshot] = []
    while snapshot is not None and not (BARRIERS in snapshot.properties or remembers(snapshot)):
        foreign.append(snapshot)
        snapshot = before(snapshot, load)
    return foreign, snapshot


def is_foreign_commit(snapshot: Snapshot) -> bool:
    """Return whether a snapshot may have added records without giving their barrier."""
    return BARRIERS not in snapshot.properties and snapshot.commit_kind != COMMIT_KIND_COMPACT


def label_of(snapshot: Snapshot, load: Load, interval: int) -> int | None:
    """Return the barrier that the records of a snapshot belong to; None if it added none.

    Raises NotFoundError for a snapshot of another client that follows expired ones: its barrier is not known.
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
        expected="a kept snapshot of this client, which records how far each writer is",
        action="Read a newer snapshot. If there is none: if the table was being put under barriers, set the "
        "option again; else copy the table, as an expiry has removed the snapshots that record the barriers.",
    )


# A commit and the check before it, and a session and its bisection, parse the same few snapshots.
@lru_cache(maxsize=64)
def _parsed(text: str, snapshot_id: int) -> BarrierState:
    """Parse the property; a key that older versions leave out gets the safe value: all files may have moved, any
    label may wait.
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
    """Parse a writer; raises ValueError, TypeError or KeyError for another form, the caller adds the property."""
    numbers, texts = (entry["frontier"], entry["last"]), (entry["run"], entry["kind"])
    if not all(type(number) is int for number in numbers):
        raise ValueError(entry)
    at = entry.get("at")
    if not all(isinstance(text, str) for text in texts) or type(at) not in (int, type(None)):
        raise ValueError(entry)
    return Member(*numbers, *texts, at)
