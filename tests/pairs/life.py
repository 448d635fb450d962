"""The life of one table that a scenario says: written, altered, branched, expired; read after each step.

What it must hold is `tests.model`, which folds all records from scratch. The order of the steps and the rows are drawn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.barrier_labels import INTERVAL
from tests.model import Model, Row
from tests.pairs.drawn_rows import COLUMNS, ENGINES, KEY, Names, batch
from tests.plain_rows import python_rows
from tests.random_table import data_of, in_two_tasks, texts
from tests.strategies import Commit
from widetable.operations.job_writer import JobBatch, JobWriter
from widetable.write.commit_message import CommitMessage

NAME: Final = "db.t"
BRANCH: Final = "b"
_BUCKETS: Final[Mapping[str, Mapping[str, str]]] = {
    "one": {"bucket": "1"},
    "three": {"bucket": "3"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "partitions": {"bucket": "2"},
}
_VECTORS: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "32 bits": {"deletion-vectors.enabled": "true"},
    "64 bits": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
}
_BARRIERS: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "barriers": {"widetable.barrier-interval": f"{INTERVAL} ms"},
    "staged": {
        "widetable.barrier-interval": f"{INTERVAL} ms",
        "widetable.barrier-stage": "true",
    },
}
_SMALL: Final = {
    "write-buffer-size": "1 kb",
    "target-file-size": "1 kb",
    "manifest.merge-min-count": "2",
    "num-sorted-run.compaction-trigger": "2",
    "widetable.inline-compaction-size": "0 b",
    "widetable.lookup-strategy": "lookup",
}
# Rows by the other client: the table, and the rows with all columns.
TheirWrite = Callable[[wt.Table, pa.Table], None]


@dataclass
class Past:
    """What a snapshot held: with the columns that the table had then, and with those of now."""

    then: Model
    now: Model


@dataclass
class Life:
    """model: of the line that goes on. kept: other lines, which must stay as they are. barrier: that is complete."""

    row: Row
    rng: random.Random
    folder: Path
    theirs: TheirWrite | None = None
    names: Names = field(default_factory=Names)
    past: dict[int, Past] = field(default_factory=dict)
    kept: list[tuple[wt.Table, Model]] = field(default_factory=list)
    name: str = NAME
    barrier: int = 0
    at_barrier: Model | None = None
    steps: list[str] = field(default_factory=list)
    numbers: int = 0

    def create(self) -> None:
        row = self.row
        options = {
            **ENGINES[row["engine"]],
            **_BUCKETS[row["bucket"]],
            **_VECTORS[row["vectors"]],
            **_BARRIERS[row["barrier"]],
            "changelog-producer": row["producer"],
            "write-only": str(row["compaction"] != "inline").lower(),
            "widetable.fsync": "false",
        }
        if row["environment"] == "small budgets":
            options |= _SMALL
        self.catalog = wt.Catalog(str(self.folder))
        self.table = self.catalog.create_table(
            NAME,
            COLUMNS,
            primary_key=KEY,
            partition_by=["p"] if row["bucket"] == "partitions" else [],
            options=options,
        )
        self.model = Model(self.table.schema)
        self._writers: dict[str, Any] = {}

    def due(self) -> list[Callable[[], None]]:
        """The steps of this life, in an order that is drawn; writes between them."""
        made = [
            *(_STEPS[name] for name in self.row.values() if name in _STEPS),
            *([Life._by_them] if self.row["client"] != "none" else []),
            *([Life._compact] if self.row["compaction"] == "full" else []),
        ]
        self.rng.shuffle(made)
        steps: list[Callable[[Life], None]] = [Life._write, Life._write]
        if self.row["branch"] == "written as a branch":
            steps = [Life._write, Life._onto_a_branch, Life._write]
        for step in made:
            steps += [step, Life._write]
        return [lambda step=step: self._taken(step) for step in steps]  # type: ignore[misc]

    def _taken(self, step: Callable[[Life], None]) -> None:
        self.steps.append(step.__name__.strip("_").replace("_", " "))
        step(self)
        self._note()

    def end(self) -> None:
        """All is compacted; other lines are what they were."""
        self.table.compact(full=True)
        self._note()
        for table, model in self.kept:
            assert texts(python_rows(table.scan().to_arrow())) == texts(model.rows()), table.branch
        report = self.table.audit()
        assert report.ok, [str(finding) for finding in report.findings]

    def _note(self) -> None:
        """What the snapshots that are new hold."""
        self.table.wait_for_compactions()
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.past:
                self.past[snapshot.id] = Past(self.model.copy(), self.model.copy())

    # Writing

    def _write(self) -> None:
        commits = [self._draw()]
        way = self.row["writers"]
        if way == "overtaken":
            commits.append(self._draw())
        if self.row["barrier"] != "none":
            self._write_by_barriers(commits)
            self.at_barrier = self.model.copy()
            return
        if way == "two tasks":
            rows = self._rows(commits[0])
            self.table.commit_append(in_two_tasks(self.table, rows, self.rng.randint(0, len(rows))))
            time.sleep(0.004)
        elif way == "overtaken":
            self._commit_late(commits, lambda messages: self.table.commit_append(messages))
            return
        else:
            self.table.write(self._rows(commits[0]), self.rng.choice(["left", "right"]))
        self.model.write(commits[0].records)

    def _commit_late(
        self, commits: list[Commit], commit: Callable[[list[CommitMessage]], Any], **how: bool
    ) -> None:
        """All have begun before the first commits; who began last is the first."""
        begun = [(one, self._messages(one, **how)) for one in commits]
        for one, messages in reversed(begun):
            commit(messages)
            self.model.write(one.records)
            self._note()

    def _draw(self) -> Commit:
        retracts = self.row["removal"] == "records"
        return batch(self.rng, self.row["engine"], self.names, retracts=retracts)

    def _rows(self, commit: Commit) -> pa.Table:
        return data_of(self.table.schema, commit)

    def _messages(self, commit: Commit, *, named: bool = False) -> list[CommitMessage]:
        rows = self._rows(commit)
        with self.table.new_writer(rows.column_names, named=named) as writer:
            writer.write(rows)
            return writer.finish()

    def _write_by_barriers(self, commits: list[Commit]) -> None:
        """Rows of the next barrier, which is complete with them."""
        self.barrier += INTERVAL
        if self.row["writers"] == "one":
            writer = self._writers.get(self.name)
            if writer is None:
                writer = self._writers[self.name] = self.catalog.writer(self.name, "left")
                self._note()  # to join is a snapshot without rows
            writer.write(self._rows(commits[0]), barrier=self.barrier)
            writer.complete(self.barrier)
            self.model.write(commits[0].records)
        else:
            self._commit_late(commits, self._commit_at_barrier, named=True)

    def _commit_at_barrier(self, messages: list[CommitMessage]) -> None:
        """As a query of Spark does."""
        if self.numbers:
            self.barrier += INTERVAL
        self.numbers += 1
        writer = JobWriter(self.table, "left", "a run", None)
        writer.commit(messages, JobBatch(self.numbers, self.barrier))
        for snapshot in self.table.snapshots():
            # To join, which the job does itself, is a snapshot of its own, without rows.
            if snapshot.id not in self.past and snapshot.commit_user == "left":
                self.past[snapshot.id] = Past(self.model.copy(), self.model.copy())

    def _by_them(self) -> None:
        assert self.theirs is not None
        commit = batch(self.rng, self.row["engine"], self.names, retracts=False)
        if self.row["engine"] == "partial-update by order":
            # It merges the records of a key before it writes them, and a merged row has no one place in the order.
            newest = {self.model.key_of(row): (kind, row) for kind, row in commit.records}
            commit = Commit(commit.columns, tuple(newest.values()))
        rows = self._rows(commit).drop_columns("_row_kind")
        records = [("+I", record) for _, record in commit.records]
        whole = [
            rows.column(name).cast(kind.type)
            if name in rows.column_names
            else pa.nulls(len(rows), kind.type)
            for name, kind in zip(self.table.schema.names, self.table.arrow_schema, strict=True)
        ]
        self.theirs(self.table, pa.Table.from_arrays(whole, schema=self.table.arrow_schema))
        self.model.write(records)

    def _compact(self) -> None:
        self.table.compact(full=True)

    # Removal

    def _delete(self) -> None:
        has_order = "" if self.row["engine"] != "groups that remove" else " and s is not null"
        gone = [row for row in self.model.rows() if row["k"] == 1 and self._can_go(row)]
        self.table.delete(f"k = 1{has_order}")
        self.model.write([("-D", row) for row in gone])

    def _delete_keys(self) -> None:
        gone = [row for row in self.model.rows() if self._can_go(row)][:2]
        keys = [{name: row[name] for name in KEY} for row in gone]
        self.table.delete_keys(keys or [{"p": 9, "k": 9}])
        self.model.write([("-D", row) for row in gone])

    def _can_go(self, row: Row) -> bool:
        return self.row["engine"] != "groups that remove" or row["s"] is not None

    def _rewrite(self) -> None:
        self.table.delete("k = 1", rewrite=True)
        self.model.forget([row for row in self.model.rows() if row["k"] == 1])

    def _drop_partition(self) -> None:
        self.table.drop_partitions([{"p": 1}])
        self.model.forget([{"p": 1, "k": k} for k in (0, 1)])

    # Columns

    def _add(self) -> None:
        self.names.of["new"] = "new"
        self._alter({}, add_columns=[pa.field("new", pa.string())])

    def _drop(self) -> None:
        del self.names.of["t"]
        self._alter({}, drop_columns=["t"])

    def _rename(self) -> None:
        self._alter({"b": "b2", "t": "b"}, rename_columns={"b": "b2", "t": "b"})

    def _widen(self) -> None:
        self._alter({}, change_types={"a": pa.int64()})

    def _swap(self) -> None:
        self._alter({"a": "c", "c": "a"}, rename_columns={"a": "c", "c": "a"})

    def _move(self) -> None:
        self._alter({}, move_columns={"c": "after k", "b": "last"})

    def _alter(self, renamed: Mapping[str, str], **change: Any) -> None:
        self.catalog.alter_table(self.name, **change)
        self.table = self.catalog.table(self.name)
        self.names.rename(renamed)
        self.model.alter(self.table.schema, renamed)
        for past in self.past.values():
            past.now.alter(self.table.schema, renamed)

    # Branches

    def _branch(self) -> wt.Table:
        self.table.create_tag("branched")
        self.table.create_branch(BRANCH, tag="branched")
        return self.catalog.table(f"{self.name}$branch_{BRANCH}")

    def _onto_a_branch(self) -> None:
        """Main stays as it is."""
        self.kept.append((self.table, self.model.copy()))
        self.table, self.name = self._branch(), f"{self.name}$branch_{BRANCH}"

    def _branch_of_a_tag(self) -> None:
        """The branch gets a commit of its own; main goes on."""
        branch = self._branch()
        self._on(branch, self.model.copy())

    def _empty_branch(self) -> None:
        self.table.create_branch(BRANCH)
        self._on(self.catalog.table(f"{self.name}$branch_{BRANCH}"), Model(self.table.schema))

    def _on(self, branch: wt.Table, model: Model) -> dict[int, Past]:
        """One write on a branch, which is read at the end. What its snapshots held, where it made several."""
        here = dict(vars(self))
        self.table, self.model, self.name = branch, model, f"{self.name}$branch_{BRANCH}"
        self.past = {}
        self._write()
        self.kept.append((self.table, self.model))
        past = self.past
        vars(self).update(here)
        return past

    def _fast_forward(self) -> None:
        """Main goes on as the branch, also where it has a commit of its own."""
        branch = self._branch()
        known = dict(self.past)
        of_branch = self._on(branch, self.model.copy())
        if self.rng.random() < 0.5:
            self._write()
        plan = self.table.fast_forward(BRANCH, replace=True)
        _, model = self.kept.pop()
        self.table = self.catalog.table(self.name)
        self.model = model.copy()
        self.kept.append((branch, model))
        kept = {id: past for id, past in known.items() if id not in plan.snapshots}
        self.past = {**of_branch, **kept}

    # History

    def _expire(self) -> None:
        self.table.expire_snapshots(1, 1, 0)

    def _tag_and_expire(self) -> None:
        id = self.table.snapshots()[-1].id
        self.table.create_tag("kept")
        held = self.past[id].then.copy()
        self._write()
        self._note()
        self._expire()
        assert texts(python_rows(self.table.scan(tag="kept").to_arrow())) == texts(held.rows())

    def _roll_back(self) -> None:
        id = self.rng.choice([snapshot.id for snapshot in self.table.snapshots()])
        self.table.rollback(id)
        self.model = self.past[id].now.copy()

    def _rescale(self) -> None:
        self.table.rescale(self.rng.choice([1, 4]))
        self.model.schema = self.table.schema

    def _copy(self) -> None:
        """The life goes on in the copy."""
        self.catalog.copy_table(self.name, "db.copy")
        self.kept.append((self.table, self.model.copy()))
        self.table, self.name = self.catalog.table("db.copy"), "db.copy"
        self.past = {}

    def _maintain(self) -> None:
        self.table.maintain(once=True)


_STEPS: Final[Mapping[str, Callable[[Life], None]]] = {
    "delete": Life._delete,
    "delete keys": Life._delete_keys,
    "rewrite": Life._rewrite,
    "partition": Life._drop_partition,
    "add": Life._add,
    "drop": Life._drop,
    "rename": Life._rename,
    "widen": Life._widen,
    "swap": Life._swap,
    "move": Life._move,
    "of a tag": Life._branch_of_a_tag,
    "fast-forward": Life._fast_forward,
    "empty": Life._empty_branch,
    "expiry": Life._expire,
    "tag and expiry": Life._tag_and_expire,
    "rollback": Life._roll_back,
    "rescale": Life._rescale,
    "copy": Life._copy,
    "maintain": Life._maintain,
}
