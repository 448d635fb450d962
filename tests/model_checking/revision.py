"""A revision of two tables as a system to search: a cascading rollback that may die in the middle.

X is written by root a with a faulty rule (each record counts 1), Z by job q over X. A revision takes both back to a
barrier and lets the writers go on with the right rule (each counts 2): the intent is noted, then one commit per table
rolls it back and refuses writers of before, then the revision is active. Writers and readers go on meanwhile.
Broken: a reader saw X and Z of two revisions, or X has values of the faulty rule after the revision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.model_checking.configuration import Mistake
from tests.model_checking.search import Broken

ORDER: Final = ("Z", "X")  # of rolling back
WRITTEN: Final = {"a": "X", "q": "Z"}
NONE, NOTED, ACTIVE = range(3)


class Value(NamedTuple):
    """A commit: one barrier, its value, and the revision of who wrote it."""

    label: int
    value: int
    revision: int


class Rollback(NamedTuple):
    revision: int


Chain = tuple[Value | Rollback, ...]


class Writer(NamedTuple):
    """The revision that it started with, and what it is about to commit."""

    revision: int = 0
    ready: Value | None = None


class Session(NamedTuple):
    """A reader: the revision that it took once, and the rows of X, when it has read them."""

    revision: int
    rows: tuple[tuple[int, int], ...] | None = None


class RevisionState(NamedTuple):
    """is_busy: somebody is at the revision; who does it may die, anybody goes on."""

    x: Chain = ()
    z: Chain = ()
    phase: int = NONE
    is_busy: bool = False
    a: Writer = Writer()
    q: Writer = Writer()
    session: Session | None = None
    crashes: int = 0

    def chain(self, table: str) -> Chain:
        return self.x if table == "X" else self.z

    def committed(self, table: str, entry: Value | Rollback) -> RevisionState:
        after = (*self.chain(table), entry)
        return self._replace(x=after) if table == "X" else self._replace(z=after)

    def with_writer(self, name: str, writer: Writer) -> RevisionState:
        return self._replace(a=writer) if name == "a" else self._replace(q=writer)


Steps = Iterator[tuple[str, RevisionState]]


def revision_of(chain: Chain) -> int:
    return max((entry.revision for entry in chain if isinstance(entry, Rollback)), default=0)


@dataclass(frozen=True)
class Revision:
    """last: the last barrier; to: the one that the revision goes back to; crashes: how many of who revises."""

    last: int
    to: int
    crashes: int
    mistake: Mistake | None = None

    def start(self) -> RevisionState:
        return RevisionState(crashes=self.crashes)

    def live(self, chain: Chain) -> dict[int, int]:
        """Values by barriers, without those that were rolled back."""
        rows: dict[int, int] = {}
        for entry in chain:
            if isinstance(entry, Rollback):
                rows = {label: value for label, value in rows.items() if label <= self.to}
            else:
                rows[entry.label] = entry.value
        return rows

    def top(self, chain: Chain) -> int:
        return max(self.live(chain), default=0)

    def rows(self, chain: Chain, revision: int) -> dict[int, int]:
        """What is live in a revision, as its readers see it."""
        if self.mistake == "reader_takes_newest_revision":
            return self.live(chain)
        later = (
            place
            for place, entry in enumerate(chain)
            if isinstance(entry, Rollback) and entry.revision > revision
        )
        return self.live(chain[: next(later, len(chain))])

    def steps(self, state: RevisionState) -> Steps:
        yield from self.revise(state)
        yield from self.write(state, "a")
        yield from self.write(state, "q")
        yield self.read(state)

    def revise(self, state: RevisionState) -> Steps:
        if state.phase == NONE and self.top(state.x) > self.to:
            yield "the revision is noted", state._replace(phase=NOTED, is_busy=True)
        if state.phase != NOTED:
            return
        if not state.is_busy:
            yield "the revision goes on", state._replace(is_busy=True)
            return
        todo = [name for name in ORDER if revision_of(state.chain(name)) == 0]
        if todo:
            yield f"{todo[0]} is rolled back", state.committed(todo[0], Rollback(1))
        else:
            yield "the revision is active", state._replace(phase=ACTIVE, is_busy=False)
        if state.crashes:
            lost = state._replace(is_busy=False, crashes=state.crashes - 1)
            yield "who revises crashes", lost

    def write(self, state: RevisionState, name: str) -> Steps:
        """A writer takes the active revision when it starts, computes, commits where its revision is the table's."""
        own, chain = state.a if name == "a" else state.q, state.chain(WRITTEN[name])
        active = int(state.phase == ACTIVE)
        if own.ready is not None:
            yield self.commit(state, name, own.revision, own.ready)
        elif own.revision == revision_of(chain) and self.top(chain) < self.last:
            value = self.computed(state, name, self.top(chain) + 1, own.revision)
            if value is not None:
                after = state.with_writer(name, Writer(own.revision, value))
                yield f"{name} computes {value.label}", after
        elif own.revision != active and revision_of(chain) == active:
            yield f"{name} starts again", state.with_writer(name, Writer(active))

    def computed(self, state: RevisionState, name: str, label: int, own: int) -> Value | None:
        if name == "a":
            return Value(label, label * (1 + own), own)
        rows = self.live(state.x)
        if label in rows and revision_of(state.x) == own:
            return Value(label, rows[label], own)
        return None

    def commit(
        self, state: RevisionState, name: str, own: int, ready: Value
    ) -> tuple[str, RevisionState]:
        chain = state.chain(WRITTEN[name])
        after = state.with_writer(name, Writer(own))
        if own != revision_of(chain) and self.mistake != "old_writer_is_not_refused":
            return f"{name} is refused", after
        if ready.label != self.top(chain) + 1:
            return f"{name} finds nothing to do", after
        return f"{name} commits {ready.label}", after.committed(WRITTEN[name], ready)

    def read(self, state: RevisionState) -> tuple[str, RevisionState]:
        """A reader takes the active revision once, then table after table."""
        session = state.session
        if session is None:
            started = Session(int(state.phase == ACTIVE))
            return "a reader starts", state._replace(session=started)
        if session.rows is None:
            rows = tuple(sorted(self.rows(state.x, session.revision).items()))
            return "it reads X", state._replace(session=Session(session.revision, rows))
        mine, other = dict(session.rows), self.rows(state.z, session.revision)
        for label in other.keys() & mine.keys():
            if mine[label] != other[label]:
                raise Broken(f"barrier {label}: X has {mine[label]}, Z has {other[label]}")
        return "it reads Z", state._replace(session=None)

    def check(self, state: RevisionState) -> None:
        if state.phase == ACTIVE:
            rows = self.live(state.x).items()
            wrong = {
                label: value for label, value in rows if label > self.to and value != 2 * label
            }
            if wrong:
                raise Broken(f"X has {wrong} after the revision to {self.to}")

    def finished(self, state: RevisionState) -> bool:
        is_done = state.phase == ACTIVE and state.session is None
        return is_done and self.top(state.x) == self.top(state.z) == self.last
