"""What a compactor may do next: plan files of level 0 up to a cut, move them up, in groups or at once, crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.model_checking.chain import Compact, data, fold, frontier
from tests.model_checking.configuration import roundest
from tests.model_checking.state import Compaction, State, Steps
from tests.model_checking.world import World


@dataclass(frozen=True)
class CompactorProcess:
    world: World
    index: int
    table: str

    def steps(self, state: State) -> Steps:
        planned = state.compactions[self.index]
        yield from self.plan(state) if planned is None else self.move(state, planned)

    def plan(self, state: State) -> Steps:
        chain = self.world.chain(state, self.table)
        level0 = fold(chain).level0
        done = set()
        for cut in self.cuts(state):
            files = tuple(
                id
                for id in level0
                if self.world.mistake == "compaction_not_cut" or data(chain, id).label <= cut
            )
            if files and files not in done:
                done.add(files)
                after = state.with_compaction(self.index, Compaction(files, cut))
                yield f"compactor of {self.table} plans {files} up to {cut}", after

    def cuts(self, state: State) -> Sequence[int]:
        """Up to the lowest label that waits there is nothing to move; at the cut there may be, of one who died."""
        chain = self.world.chain(state, self.table)
        snapshot, top = fold(chain), frontier(chain)
        lowest = min((data(chain, id).label for id in snapshot.level0), default=top + 1)
        cut = snapshot.cut + (self.world.mistake == "next_cut_is_higher")
        cuts = range(max(cut, lowest), top + 1)
        if self.world.mistake == "compaction_not_cut":
            return [top]
        if self.world.configuration.is_rounding and cuts:
            return [top if self.world.mistake == "skip_to_newest" else roundest(cuts)]
        return cuts

    def move(self, state: State, planned: Compaction) -> Steps:
        files, cut = planned
        group = files[:1] if self.world.configuration.in_groups else files
        rest = Compaction(files[len(group) :], cut) if len(group) < len(files) else None
        after = state.with_compaction(self.index, rest)
        text = f"compactor of {self.table} publishes {group} up to {cut}"
        yield text, self.world.publish(after, self.table, Compact(cut, group))
        if state.crashes:
            lost = state.crashed().with_compaction(self.index, None)
            yield f"compactor of {self.table} crashes", lost
