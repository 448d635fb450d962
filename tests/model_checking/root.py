"""What a root may do next: plan a batch, commit it table by table, log it, say that it is idle, join, crash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model_checking.chain import Append, Idle, Join, appends_of, batches_of, frontier
from tests.model_checking.state import DEAD, GONE, Prepared, RootState, State, Steps
from tests.model_checking.world import World

Said = tuple[int, bool]  # a label, and whether the commit completes it


@dataclass(frozen=True)
class RootProcess:
    world: World
    index: int
    name: str

    @property
    def tables(self) -> tuple[str, ...]:
        return self.world.configuration.roots[self.name].tables

    def is_leaver(self) -> bool:
        return self.name == self.world.configuration.leaver

    def steps(self, state: State) -> Steps:
        configuration = self.world.configuration
        own = state.roots[self.index]
        if self.is_leaver() and state.leaver == DEAD:
            return
        is_early = self.name == configuration.late and state.now == 1
        is_logged = own.planned == own.logged
        if is_logged and own.planned < configuration.roots[self.name].batches and not is_early:
            after = state.with_root(self.index, RootState(own.planned + 1, own.logged))
            yield f"{self.name} plans batch {own.planned}", after
        if not is_logged:
            yield from self.batch(state, own)
        yield from self.idle(state, is_logged)

    def batch(self, state: State, own: RootState) -> Steps:
        """A batch that is planned: its next commit, or that it is logged."""
        batch = own.planned - 1
        missing = [
            name
            for name in self.tables
            if batch not in batches_of(self.world.chain(state, name), self.name)
        ]
        if not missing:
            after = state.with_root(self.index, RootState(own.planned, own.planned))
            yield f"{self.name} logs batch {batch}", after
        elif missing[0] != self.tables[0]:
            yield from self.follow(state, missing[0], batch)
        elif own.prepared is not None:
            yield from self.race(state, own, own.prepared)
        else:
            yield from self.lead(state, own)

    def follow(self, state: State, table: str, batch: int) -> Steps:
        """In the other tables a batch has the label that it has in the lead."""
        lead = self.world.chain(state, self.tables[0])
        entry = next(each for each in appends_of(lead, self.name) if each.batch == batch)
        said = [(entry.label, entry.completes)]
        if self.world.mistake == "label_per_sink":
            said = list(self.labels(state, self.world.member(state, table, self.name) or 0))
        for each in said:
            yield self.published(state, table, each, batch)

    def race(self, state: State, own: RootState, prepared: Prepared) -> Steps:
        """A commit that has looked is published if nobody was faster, else made again."""
        after = state.with_root(self.index, RootState(own.planned, own.logged))
        lead = self.tables[0]
        is_newest = prepared.seen == self.world.chain(state, lead)
        if is_newest or self.world.mistake == "label_not_checked":
            said = prepared.label, prepared.completes
            yield self.published(after, lead, said, own.planned - 1)
        else:
            yield f"{self.name} lost the race", after
        if state.crashes:
            yield f"{self.name} crashes", after.crashed()

    def lead(self, state: State, own: RootState) -> Steps:
        """The first commit of a batch, which chooses its label; before it, who is no member joins."""
        batch, lead = own.planned - 1, self.tables[0]
        chain, member = self.world.chain(state, lead), self.world.member(state, lead, self.name)
        if member is not None:
            said = list(self.labels(state, member))
        elif self.world.mistake == "zombie" and state.leaver == GONE and self.is_leaver():
            highest = max((entry.label for entry in appends_of(chain, self.name)), default=0)
            said = [(highest + 1, True)]  # it goes on where it was
        else:
            at = 0 if self.world.mistake == "join_at_zero" else frontier(chain)
            yield (
                f"{self.name} joins {lead}",
                self.world.publish(state, lead, Join(self.name, at)),
            )
            return
        for label, completes in said:
            if self.world.configuration.is_racing:
                ready = RootState(own.planned, own.logged, Prepared(chain, label, completes))
                after = state.with_root(self.index, ready)
                yield f"{self.name} prepares batch {batch} at {label}", after
            else:
                yield self.published(state, lead, (label, completes), batch)

    def labels(self, state: State, own: int) -> Iterator[Said]:
        """What a commit may say whose writer has completed `own`."""
        if state.now > own:
            yield state.now, True
            if self.world.configuration.is_open:
                yield state.now, False
        else:
            yield own + 1, False

    def published(self, state: State, table: str, said: Said, batch: int) -> tuple[str, State]:
        label, completes = said
        entry = Append(self.name, label, 1, (), completes, batch)
        text = f"{self.name} publishes batch {batch} in {table} at {label}"
        return text, self.world.publish(state, table, entry)

    def idle(self, state: State, is_logged: bool) -> Steps:
        """A barrier without data: in the lead at any time (one table), between batches (several); then in the rest."""
        lead, member = self.tables[0], self.world.member(state, self.tables[0], self.name)
        if member is None:
            return
        if state.now > member and (is_logged or len(self.tables) == 1):
            yield self.completed(state, lead, state.now)
        in_lead = batches_of(self.world.chain(state, lead), self.name)
        for table in self.tables[1:]:
            here = self.world.member(state, table, self.name)
            has_same = batches_of(self.world.chain(state, table), self.name) == in_lead
            may = has_same or self.world.mistake == "follower_pushed"
            if here is not None and here < member and may:
                yield self.completed(state, table, member)

    def completed(self, state: State, table: str, barrier: int) -> tuple[str, State]:
        after = self.world.publish(state, table, Idle(((self.name, barrier),)))
        return f"{self.name} is idle up to {barrier} in {table}", after
