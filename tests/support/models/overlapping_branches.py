"""Histories of main and branches with writers that overlap: branches, rollbacks, fast-forwards, rescaling and expiry
between their begin and their commit.

Each branch has a model of its own, and remembers which rows each of its snapshots has. What is put back by a rollback,
or comes by a fast-forward, is earlier than all that is committed after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st

import widetable as wt
from tests.support.models.model import Model
from tests.support.models.overlapping import Begun, Overlapping, messages_of
from tests.support.models.random_table import TableSpec, rows_of, texts
from tests.support.models.strategies import drawn_snapshot
from widetable.errors import InvalidError

MAIN: Final = "main"
_MOST_BRANCHES: Final = 3
# Of a branch by itself, and of several.
_OWN_STEPS: Final = ("begin", "begin", "begin", "commit", "commit", "compact")
# What a kind of history has besides.
KINDS: Final = {
    "branches": ("branch", "forward", "forward"),
    "rollbacks": ("roll back", "roll back"),
    "rescaling": ("rescale", "rescale"),
    "expiry": ("expire", "expire"),
    "all": ("branch", "forward", "forward", "roll back", "rescale", "expire"),
}


@dataclass
class Line(Overlapping):
    """Main, or a branch. past: the model as of each snapshot. tags: the snapshot of each.

    is_whole: its snapshots are those of its own commits, from the first one on.
    """

    past: dict[int, Model] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    is_whole: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check = self.check_and_note

    def check_and_note(self) -> None:
        """The rows are those of the commits in their order, and so they are at the snapshots that are new."""
        self.check_rows()
        for snapshot in self.table.snapshots():
            self.past.setdefault(snapshot.id, self.model.copy())

    def check_past(self, data: st.DataObject) -> None:
        """One of the snapshots has the rows that it had."""
        ids = [snapshot.id for snapshot in self.table.snapshots()]
        if ids:
            id = drawn_snapshot(data, ids)
            assert rows_of(self.table, snapshot_id=id) == texts(self.past[id].rows())

    def committed(self, one: Begun) -> wt.CommitResult:
        """One that is told that the table has begun another life begins anew, as do those whose schema is gone."""
        try:
            return super().committed(one)
        except InvalidError:
            assert one.is_stale
        table = wt.Table.open(self.table.path)
        return table.commit_append(messages_of(table, one.rows))

    def roll_back(self, data: st.DataObject) -> None:
        """To a snapshot, or to a tag, also of a snapshot that has expired."""
        handle = self.handle(data)
        is_tagged: bool = data.draw(st.booleans(), label="to a tag")
        if self.tags and is_tagged:
            name = data.draw(st.sampled_from(sorted(self.tags)), label="tag")
            id = self.tags[name]
            handle.rollback(tag=name)
        else:
            id = drawn_snapshot(data, [snapshot.id for snapshot in self.table.snapshots()])
            handle.rollback(id)
        self.model = self.past[id].copy()
        self.is_whole = False
        self.check()

    def rescale(self, data: st.DataObject) -> None:
        """To any number of buckets."""
        self.handle(data).rescale(data.draw(st.integers(1, 4), label="buckets"))
        self.check()

    def expire(self, data: st.DataObject) -> None:
        """All snapshots but the newest ones."""
        kept = data.draw(st.integers(1, 2), label="snapshots kept")
        self.handle(data).expire_snapshots(kept, kept, 0)
        self.is_whole = False
        self.check()

    def tag(self, data: st.DataObject, name: str) -> None:
        """Of one of the snapshots."""
        self.tags[name] = drawn_snapshot(data, [one.id for one in self.table.snapshots()])
        self.table.create_tag(name, self.tags[name])


@dataclass
class OverlappingBranches:
    """One history. lines: by name, main the first one. made: how many names were given."""

    table: wt.Table
    spec: TableSpec
    lines: dict[str, Line] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        self.lines[MAIN] = Line(self.table, self.spec)

    def run(self, data: st.DataObject, kind: str, steps: int) -> None:
        """A commit, so many steps, then the commits of all that have begun."""
        self.lines[MAIN].begin(data)
        self.lines[MAIN].commit(data)
        for _ in range(steps):
            name = data.draw(st.sampled_from(_OWN_STEPS + KINDS[kind]), label="step")
            self.step(data, name, data.draw(st.sampled_from(list(self.lines)), label="branch"))
        for line in self.lines.values():
            while line.begun:
                line.commit(data)

    def step(self, data: st.DataObject, name: str, branch: str) -> None:
        """One step; one that cannot be made now begins a writer, or commits one."""
        line = self.lines[branch]
        of_line = {"roll back": line.roll_back, "rescale": line.rescale, "expire": line.expire}
        if name in ("branch", "forward") and line.past:
            has_source = bool(self._sources(branch))
            goes = len(self.lines) > _MOST_BRANCHES or (name == "forward" and has_source)
            (self._forward if goes and has_source else self._branch)(data, branch)
        elif name in of_line and line.past:
            of_line[name](data)
        else:
            line.step(data, name)

    def _sources(self, of: str) -> list[str]:
        """The branches that a line can go forward to."""
        lines = self.lines.items()
        return sorted(name for name, line in lines if line.past and name not in (MAIN, of))

    def _branch(self, data: st.DataObject, of: str) -> None:
        """Of a tag, old or new; or without rows."""
        self.made += 1
        name, line = f"b{self.made}", self.lines[of]
        is_empty = data.draw(st.integers(0, 5), label="of") == 0
        tag = None if is_empty else self._tag(data, line)
        line.table.create_branch(name, tag=tag)
        made = Line(wt.Table.open(line.table.path, branch=name), self.spec)
        if tag is not None:
            id = line.tags[tag]
            made.model, made.past, made.tags = line.past[id].copy(), {id: line.past[id]}, {tag: id}
        made.is_whole = False
        self.lines[name] = made
        made.check()

    def _tag(self, data: st.DataObject, line: Line) -> str:
        is_old: bool = data.draw(st.booleans(), label="an old tag")
        if line.tags and is_old:
            return data.draw(st.sampled_from(sorted(line.tags)), label="tag")
        line.tag(data, f"t{self.made}")
        return f"t{self.made}"

    def _forward(self, data: st.DataObject, of: str) -> None:
        """Of any of the lines to one of the branches; also of one that has commits of its own since."""
        names = self._sources(of)
        name = data.draw(st.sampled_from(names), label="to")
        line, source = self.lines[of], self.lines[name]
        plan = line.handle(data).fast_forward(name, replace=True)
        ends_life = bool(plan.dropped_snapshots or plan.dropped_schemas or plan.dropped_tags)
        for one in line.begun:
            one.is_stale = one.is_stale or ends_life
        line.table = wt.Table.open(line.table.path)
        line.model, line.is_whole = source.model.copy(), False
        for id in plan.dropped_snapshots:
            line.past.pop(id, None)
        line.past |= {id: source.past[id] for id in plan.snapshots}
        for tag in plan.dropped_tags:
            del line.tags[tag]
        line.tags |= {tag: source.tags[tag] for tag in plan.tags}
        line.past |= {id: source.past[id] for id in line.tags.values() if id in source.past}
        line.check()
        source.check()
