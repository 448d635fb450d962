"""Random histories of main and branches against a model of each: none deletes or shows what is another one's."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.branched import Rows, create, opened, put, rows_of

STEPS = int(os.environ.get("WIDETABLE_BRANCH_STEPS", "30"))


class History:
    """Main and branches with a model of each: key to value. Tags of every branch, too."""

    def __init__(self, table: wt.Table, rng: random.Random) -> None:
        self.rng = rng
        self.table = table
        self.models: dict[str, Rows] = {"main": {}}
        self.tags: dict[tuple[str, str], Rows] = {}
        self.made = 0

    def open(self, branch: str) -> wt.Table:
        return opened(self.table, branch)

    def step(self) -> str:
        branch = self.rng.choice(list(self.models))
        steps = (
            *[self.write] * 5,
            self.compact,
            self.expire,
            self.clean,
            self.tag,
            self.untag,
            *[self.branch] * 2,
            self.drop,
            self.roll_back,
            self.forward,
            self.fail,
            self.delete,
        )
        chosen = self.rng.choice(steps)
        chosen(branch)
        return f"{chosen.__name__} {branch}"

    def write(self, branch: str) -> None:
        self.made += 1
        rows: Rows = {
            self.rng.randrange(12): f"{branch}/{self.made}" for _ in range(self.rng.randint(1, 5))
        }
        put(self.open(branch), rows)
        self.models[branch] |= rows

    def delete(self, branch: str) -> None:
        key = self.rng.randrange(12)
        self.open(branch).delete_keys([key])
        self.models[branch].pop(key, None)

    def fail(self, branch: str) -> None:
        """A write that is thrown away."""
        table = self.open(branch)
        with table.new_writer(["k", "v"]) as writer:
            writer.write(pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["no", "no"]}))
            table.discard(writer.finish())

    def compact(self, branch: str) -> None:
        self.open(branch).compact(full=self.rng.random() < 0.5)

    def expire(self, branch: str) -> None:
        keep = self.rng.randint(1, 3)
        self.open(branch).expire_snapshots(keep, keep, 0)

    def clean(self, branch: str) -> None:
        if self.open("main").snapshots():
            self.open(branch).remove_orphan_files(older_than_millis=0)

    def tag(self, branch: str) -> None:
        table = self.open(branch)
        if table.snapshots():
            self.made += 1
            table.create_tag(f"t{self.made}")
            self.tags[branch, f"t{self.made}"] = dict(self.models[branch])

    def untag(self, branch: str) -> None:
        names = [name for of, name in self.tags if of == branch]
        if names:
            name = self.rng.choice(names)
            self.open(branch).delete_tag(name)
            del self.tags[branch, name]

    def branch(self, branch: str) -> None:
        """From a tag if there is one."""
        if len(self.models) > 4:
            return
        self.made += 1
        name, tags = f"b{self.made}", [name for of, name in self.tags if of == branch]
        tag = self.rng.choice(tags) if tags else None
        self.open(branch).create_branch(name, tag=tag)
        self.models[name] = {}
        if tag is not None:
            self.models[name] = dict(self.tags[branch, tag])
            self.tags[name, tag] = dict(self.tags[branch, tag])

    def drop(self, branch: str) -> None:
        if branch == "main" or self.rng.random() < 0.5:
            return
        self.open("main").drop_branch(branch)
        del self.models[branch]
        self.tags = {key: rows for key, rows in self.tags.items() if key[0] != branch}

    def roll_back(self, branch: str) -> None:
        table = self.open(branch)
        if not table.snapshots():
            return
        target = self.rng.choice(table.snapshots()).id
        rows = rows_of(table, snapshot_id=target)
        table.rollback(target)
        self.models[branch] = rows

    def forward(self, branch: str) -> None:
        """Of any branch to any other one."""
        target = self.rng.choice(list(self.models))
        if target == branch or branch == "main" or not self.open(branch).snapshots():
            return
        table = self.open(target)
        plan = table.fast_forward(branch, dry_run=True)
        assert table.fast_forward(branch, replace=True) == plan
        for name in plan.dropped_tags:
            del self.tags[target, name]
        for name in plan.tags:
            self.tags[target, name] = dict(self.tags[branch, name])
        self.models[target] = dict(self.models[branch])
        put(table, {0: "after"})
        self.models[target][0] = "after"

    def check(self) -> None:
        assert self.open("main").branches() == sorted(self.models.keys() - {"main"})
        for branch, rows in self.models.items():
            table = self.open(branch)
            assert rows_of(table) == rows, branch
            tags = {name: rows for (of, name), rows in self.tags.items() if of == branch}
            assert set(table.tags()) == set(tags)
            for name, tagged in tags.items():
                assert rows_of(table, tag=name) == tagged, (branch, name)
            for snapshot in table.snapshots():
                rows_of(table, snapshot_id=snapshot.id)


@pytest.mark.parametrize("producer", ["none", "lookup", "input"])
def test_random_histories_of_branches(tmp_path: Path, rng: random.Random, producer: str) -> None:
    table = create(tmp_path, **{"changelog-producer": producer, "merge-engine": "deduplicate"})
    history, steps = History(table, rng), []
    for _ in range(STEPS):
        steps.append(history.step())
        try:
            history.check()
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\nafter {steps}") from error
    for branch in history.models:
        report = history.open(branch).audit()
        assert report.ok, (branch, report.findings, steps)
