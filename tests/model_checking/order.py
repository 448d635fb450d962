"""One key of a table under barriers as a system to search: what it shows does not depend on when compactions run,
whichever of its writers is ahead.

Two writers commit records, each of a barrier, its label; later commits win. They write one column, or each its own.
What a compaction has moved up sorts before level 0. So where two records have the column in common, one that follows on
a record that stays at level 0 stays, too; and labels of a writer never go back, not even while it was away, so that its
own records never hold up a cut. `moved` is the highest label above level 0, exactly, and barriers at which changes stop
rest on it (decision 0042). Broken: rows or changes that are not those of the records up to there, or a cut that is held
up though each writer has its own column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.model_checking.configuration import Mistake
from tests.model_checking.search import Broken

WRITERS: Final = ("a", "b")
LEAVER: Final = "b"
NOTHING: Final = -1


class Labelled(NamedTuple):
    """A record; its place among all is its number."""

    writer: str
    label: int


class Member(NamedTuple):
    """frontier: complete up to here, None while it is away. last: its highest label, of all times."""

    frontier: int | None = 0
    last: int = 0


class OrderState(NamedTuple):
    """upper: numbers of what is above level 0; winners: of these the one that shows, per column."""

    records: tuple[Labelled, ...] = ()
    upper: tuple[int, ...] = ()
    winners: tuple[int, ...] = (NOTHING, NOTHING)
    members: tuple[Member, ...] = (Member(), Member())
    moved: int = 0
    has_left: bool = False

    @property
    def level0(self) -> list[int]:
        return [number for number in range(len(self.records)) if number not in self.upper]

    @property
    def frontier(self) -> int:
        return min(m.frontier for m in self.members if m.frontier is not None)

    def with_member(self, writer: int, member: Member) -> OrderState:
        members = list(self.members)
        members[writer] = member
        return self._replace(members=tuple(members))


@dataclass(frozen=True)
class Order:
    """last: the last barrier; batches: of each writer; is_shared: both write the same column."""

    last: int
    batches: int
    is_shared: bool
    mistake: Mistake | None = None

    def start(self) -> OrderState:
        return OrderState()

    def steps(self, state: OrderState) -> Iterator[tuple[str, OrderState]]:
        for writer, member in enumerate(state.members):
            if member.frontier is not None:
                yield from self.write(state, writer, member, member.frontier)
        yield from self.go_and_come(state)
        waiting = min((state.records[number].label for number in state.level0), default=0)
        for cut in range(max(state.moved, waiting, 1), state.frontier + 1):
            yield from self.compact(state, cut)

    def write(
        self, state: OrderState, writer: int, member: Member, frontier: int
    ) -> Iterator[tuple[str, OrderState]]:
        name = WRITERS[writer]
        if frontier < self.last:
            completed = state.with_member(writer, member._replace(frontier=frontier + 1))
            yield f"{name} completes {frontier + 1}", completed
        if sum(record.writer == name for record in state.records) == self.batches:
            return
        earliest = max(frontier + 1, 0 if self.mistake == "labels_go_back" else member.last)
        for label in range(earliest, self.last + 1):
            records = (*state.records, Labelled(name, label))
            after = Member(frontier, max(member.last, label))
            written = state._replace(records=records)
            yield f"{name} writes to {label}", written.with_member(writer, after)
            all_of_it = written.with_member(writer, after._replace(frontier=label))
            yield f"{name} writes all of {label}", all_of_it

    def go_and_come(self, state: OrderState) -> Iterator[tuple[str, OrderState]]:
        """One that is away is waited for no more; it comes back where the table is complete."""
        writer = WRITERS.index(LEAVER)
        member = state.members[writer]
        if member.frontier is None:
            last = 0 if self.mistake == "who_left_is_forgotten" else member.last
            back = Member(state.frontier, last)
            yield f"{LEAVER} comes back", state.with_member(writer, back)
        elif not state.has_left:
            gone = state.with_member(writer, member._replace(frontier=None))
            yield f"{LEAVER} leaves", gone._replace(has_left=True)

    def compact(self, state: OrderState, cut: int) -> Iterator[tuple[str, OrderState]]:
        stays = self.staying(state, cut)
        taken = [number for number in state.level0 if number not in stays]
        held_up = [number for number in stays if state.records[number].label <= cut]
        if held_up and not self.is_shared:
            raise Broken(f"record {held_up[0]} holds up the cut {cut}, and nobody else writes it")
        if not taken:
            return
        labels = [state.records[number].label for number in taken]
        yield (
            f"a compaction takes {taken}",
            state._replace(
                upper=tuple(sorted((*state.upper, *taken))),
                winners=self.shown(state, state.winners, taken),
                moved=max(state.moved, *labels),
            ),
        )

    def staying(self, state: OrderState, cut: int) -> set[int]:
        """Of level 0: what is later than the cut, and what follows on it in the same column."""
        stays = {number for number in state.level0 if state.records[number].label > cut}
        if self.mistake == "what_follows_is_taken":
            return stays
        for number in state.level0:
            column = self.column(state, number)
            if any(one < number and self.column(state, one) == column for one in stays):
                stays.add(number)
        return stays

    def column(self, state: OrderState, number: int) -> int:
        return 0 if self.is_shared else WRITERS.index(state.records[number].writer)

    def shown(
        self, state: OrderState, below: tuple[int, ...], numbers: Iterable[int]
    ) -> tuple[int, ...]:
        """Per column, when these come upon what is below."""
        found = list(below)
        for number in sorted(numbers):
            found[self.column(state, number)] = number
        return tuple(found)

    def of_barrier(self, state: OrderState, numbers: Iterable[int], barrier: int) -> list[int]:
        return [number for number in numbers if state.records[number].label <= barrier]

    def check(self, state: OrderState) -> None:
        everything = range(len(state.records))
        newest = self.shown(state, state.winners, state.level0)
        if newest != self.shown(state, (NOTHING, NOTHING), everything):
            raise Broken(f"the newest rows are {newest}: they changed with a compaction")
        for barrier in range(max(state.moved, 1), state.frontier + 1):
            expected = self.of_barrier(state, everything, barrier)
            waiting = self.of_barrier(state, state.level0, barrier)
            rows = self.shown(state, state.winners, waiting)
            if rows != self.shown(state, (NOTHING, NOTHING), expected):
                raise Broken(f"barrier {barrier} shows {rows}")
            is_forgotten = self.mistake == "what_waits_is_forgotten"
            if (is_forgotten or not waiting) and list(state.upper) != expected:
                raise Broken(f"changes stop at {barrier} with {state.upper}, not {expected}")

    def finished(self, state: OrderState) -> bool:
        return state.frontier == self.last and not state.level0
