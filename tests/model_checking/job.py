"""What a derived job may do next: plan one barrier for all its sources, write it ahead, run, commit, log, crash."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model_checking.chain import Append, Join, Row, appends_of, batches_of, frontier
from tests.model_checking.configuration import roundest
from tests.model_checking.state import DEAD, JobState, State, Steps
from tests.model_checking.world import World


@dataclass(frozen=True)
class JobProcess:
    world: World
    index: int
    name: str

    @property
    def sources(self) -> tuple[str, ...]:
        return self.world.configuration.jobs[self.name].sources

    @property
    def sink(self) -> str:
        return self.world.configuration.jobs[self.name].sink

    def start(self) -> JobState:
        zeros = (0,) * len(self.sources)
        return JobState(0, zeros, None, self.nobody(), False, None, zeros)

    def nobody(self) -> tuple[None, ...]:
        return (None,) * len(self.sources)

    def steps(self, state: State) -> Steps:
        own = state.jobs[self.index]
        if self.name == self.world.configuration.leaver and state.leaver == DEAD:
            return
        if own.ahead is None:
            yield from self.plan(state, own)
        elif own.has_run:
            logged = JobState(
                own.batch + 1, own.ahead, None, self.nobody(), False, None, own.consumer
            )
            yield f"{self.name} logs batch {own.batch}", state.with_job(self.index, logged)
        elif own.batch in batches_of(self.world.chain(state, self.sink), self.name):
            # It is in, but the state of the operators is not: the batch runs again.
            self.changes(state, own.at, own.ahead)
            after = state.with_job(self.index, own._replace(has_run=True))
            yield f"{self.name} runs batch {own.batch} again", after
        else:
            yield self.commit(state, own, own.ahead)
            if self.world.member(state, self.sink, self.name) is None:
                return  # only joined: no step of a batch that could crash
        if state.crashes:
            plan = None if self.world.mistake == "plan_not_durable" else own.plan
            crashed = own._replace(asked=self.nobody(), has_run=False, plan=plan)
            if crashed != own:
                yield f"{self.name} crashes", state.crashed().with_job(self.index, crashed)

    def plan(self, state: State, own: JobState) -> Steps:
        """Source after source is asked for the barrier to read up to; when all are, that is written ahead. While the
        first that is asked has nothing to say the others have not, either: such a round changes nothing.
        """
        for place, source in enumerate(self.sources):
            if own.asked[place] is not None:
                continue
            for barrier in self.choices(state, own, place):
                asked = (*own.asked[:place], barrier, *own.asked[place + 1 :])
                plan = own.plan if barrier == own.at[place] else barrier
                after = state.with_job(self.index, own._replace(asked=asked, plan=plan))
                yield f"{self.name} plans {source} {own.at[place]} -> {barrier}", after
        ahead = tuple(barrier for barrier in own.asked if barrier is not None)
        if len(ahead) == len(self.sources):
            consumer = ahead if self.world.mistake == "consumer_too_early" else own.at
            ready = own._replace(ahead=ahead, asked=self.nobody(), consumer=consumer)
            yield f"{self.name} writes {ahead} ahead", state.with_job(self.index, ready)

    def choices(self, state: State, own: JobState, place: int) -> set[int]:
        """Barriers that it may plan; what is right must not depend on which of them is taken."""
        mistake = self.world.mistake
        if mistake == "sources_ask_alone":
            alone = self.world.available(state, self.sources[place])
            ready = {barrier for barrier in alone if barrier > own.at[place]}
            return {max(ready)} if ready else set()
        if own.plan is not None:
            return {own.plan}
        everywhere = self.world.available_in_all(state, self.sources)
        ready = {barrier for barrier in everywhere if barrier > own.at[0]}
        if ready and mistake == "any_source_decides":
            # This one was asked a moment earlier, when nothing was ready, and a later one decides.
            return {own.at[place], *ready}
        if ready and mistake == "skip_to_newest":
            return {max(ready)}
        if ready and self.world.configuration.is_rounding:
            return {roundest(ready)}
        return ready

    def changes(self, state: State, at: tuple[int, ...], ahead: tuple[int, ...]) -> Row:
        """Of each source and root the records of a batch."""
        return tuple(
            ((source, writer), records)
            for source, start, end in zip(self.sources, at, ahead, strict=True)
            for writer, records in self.world.changes(state, source, start, end).items()
        )

    def commit(self, state: State, own: JobState, ahead: tuple[int, ...]) -> tuple[str, State]:
        """The batch, on top of the row of the one before; before it, who is no member joins."""
        chain, batch = self.world.chain(state, self.sink), own.batch
        before = [each.row for each in appends_of(chain, self.name) if each.batch == batch - 1]
        counts = dict(before[0]) if before else {}
        for key, records in self.changes(state, own.at, ahead):
            counts[key] = counts.get(key, 0) + records
        member = self.world.member(state, self.sink, self.name)
        if member is None:
            joined = self.world.publish(state, self.sink, Join(self.name, frontier(chain)))
            return f"{self.name} joins {self.sink}", joined
        label, completes = own.plan, True
        if label is None:  # only by mistake
            everywhere = self.world.available_in_all(state, self.sources)
            label = max((each for each in everywhere if each > member), default=ahead[0])
        elif label <= frontier(chain):  # it was away: it catches up in the next barrier
            label = frontier(chain) + 1
            completes = self.world.mistake == "catch_up_completes"
        after = state.with_job(self.index, own._replace(has_run=True))
        entry = Append(self.name, label, 0, tuple(sorted(counts.items())), completes, batch)
        text = f"{self.name} commits barrier {label} in {self.sink}"
        return text, self.world.publish(after, self.sink, entry)
