"""The life of one table that a scenario says, and how it is written; `steps` is what happens between writes.

What it must hold is `model`, which folds all records from scratch. The order of the steps and the rows are drawn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.pairs.compared import check_rows
from tests.pairs.drawn_rows import COLUMNS, ENGINES, KEY, Names, batch
from tests.pairs.other_clients import NOBODY, Others
from tests.support.models.append_model import RowsModel, model_of
from tests.support.models.barrier_labels import INTERVAL
from tests.support.models.model import Record, Row
from tests.support.models.random_table import data_of, in_two_tasks, rows_of, texts
from tests.support.models.strategies import Commit
from tests.support.tables.barrier_tables import UNDER_BARRIERS
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.write.commit_message import CommitMessage

NAME: Final = "db.t"
BRANCH: Final = "b"
_BUCKETS: Final[Mapping[str, Mapping[str, str]]] = {
    "one": {"bucket": "1"},
    "three": {"bucket": "3"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "partitions": {"bucket": "2"},
    "postponed": {"bucket": "-2", "postpone.default-bucket-num": "2"},
    "free": {"bucket": "-1"},
    "free partitions": {"bucket": "-1"},
}
_VECTORS: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "32 bits": {"deletion-vectors.enabled": "true"},
    "64 bits": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
}
_INDEXES: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "bloom": {
        "file-index.bloom-filter.columns": "k,a,b",
        "file-index.in-manifest-threshold": "1 b",
    },
    "bitmaps": {"file-index.bitmap.columns": "k,c,b", "file-index.in-manifest-threshold": "1 b"},
    "inline": {
        "file-index.bloom-filter.columns": "k,c",
        "file-index.bitmap.columns": "a,b",
        "file-index.in-manifest-threshold": "1 mb",
    },
}
_BARRIERS: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "barriers": UNDER_BARRIERS,
    "staged": {**UNDER_BARRIERS, "widetable.barrier-stage": "true"},
    "later": {},
}
_SMALL: Final = {
    "write-buffer-size": "1 kb",
    "target-file-size": "1 kb",
    "manifest.merge-min-count": "2",
    "num-sorted-run.compaction-trigger": "2",
    "widetable.inline-compaction-size": "0 b",
    "widetable.lookup-strategy": "lookup",
}
# How often the other client writes: a stream goes on from its checkpoint, across what happens between.
_THEIR_WRITES: Final = {"pypaimon": 1, "spark batch": 1, "spark stream": 2}


@dataclass
class Past:
    """What a snapshot held: with the columns that the table had then, and with those of now.

    written: the rows that a compaction makes of it, with the columns of now: where buckets are postponed, rows wait.
    """

    then: RowsModel
    now: RowsModel
    written: RowsModel


@dataclass
class Life:
    """model: of the line that goes on. kept: other lines, which must stay as they are. barrier: that is complete.

    at_barriers: by complete barrier, a snapshot that has no records of a later one, and its rows.
    shown: what readers were given at the last note, where rows wait for their buckets.
    """

    row: Row
    rng: random.Random
    root: str
    others: Others = NOBODY
    names: Names = field(default_factory=Names)
    past: dict[int, Past] = field(default_factory=dict)
    kept: list[tuple[wt.Table, RowsModel]] = field(default_factory=list)
    name: str = NAME
    barrier: int = 0
    at_barriers: dict[int, tuple[int, RowsModel]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    numbers: int = 0
    is_under_barriers: bool = False

    def create(self) -> None:
        row = self.row
        options = {
            **ENGINES[row["engine"]],
            **_BUCKETS[row["bucket"]],
            **_VECTORS[row["vectors"]],
            **_INDEXES[row["indexes"]],
            **_BARRIERS[row["barrier"]],
            "changelog-producer": row["producer"],
            "write-only": str(row["compaction"] != "inline").lower(),
            "widetable.fsync": "false",
        }
        if row["environment"] == "small budgets":
            options |= _SMALL
        has_key = row["engine"] != "append"
        if not has_key and not row["bucket"].startswith("free"):
            options["bucket-key"] = "k"
        self.catalog = wt.Catalog(self.root)
        self.table = self.catalog.create_table(
            NAME,
            COLUMNS,
            primary_key=KEY if has_key else None,
            partition_by=["p"] if row["bucket"].endswith("partitions") else [],
            options=options,
        )
        self.model = model_of(self.table.schema)
        self.shown = self.model.copy()
        self._writers: dict[str, Any] = {}
        self.is_under_barriers = row["barrier"] in ("barriers", "staged")

    def open(self) -> None:
        """All anew, in a process that has nothing open."""
        self.catalog = wt.Catalog(self.root)
        self.table = self.catalog.table(self.name)
        opened = [wt.Table.open(t._paths.shared_root, branch=t.branch) for t, _ in self.kept]
        self.kept = [(table, model) for table, (_, model) in zip(opened, self.kept, strict=True)]
        self._writers = {}

    @property
    def their_writes(self) -> int:
        """How often another client writes."""
        return _THEIR_WRITES.get(self.row["client"], 0)

    def end(self) -> None:
        """All is compacted; other lines are what they were."""
        self.table.compact(full=True)
        self.note()
        for table, model in self.kept:
            check_rows(table.branch, rows_of(table), texts(model.rows()))
        report = self.table.audit()
        assert report.ok, [str(finding) for finding in report.findings]

    def note(self) -> None:
        """What the snapshots that are new hold. Rows whose buckets are postponed get them, in a snapshot behind."""
        self.table.wait_for_compactions()
        new = self._unknown()
        if self.row["bucket"] == "postponed":
            self.table.compact()
        placed = self._unknown()[len(new) :]
        for id in new:
            self._note(id, self.shown if placed else self.model)
        for id in placed:
            self._note(id, self.model)
        self.shown = self.model.copy()

    def _unknown(self) -> list[int]:
        return [one.id for one in self.table.snapshots() if one.id not in self.past]

    def _note(self, snapshot: int, shown: RowsModel) -> None:
        self.past[snapshot] = Past(shown.copy(), shown.copy(), self.model.copy())

    # Writing

    def write(self) -> None:
        commits = [self._draw()]
        way = self.row["writers"]
        if way == "overtaken":
            commits.append(self._draw())
        if self.is_under_barriers:
            self._write_by_barriers(commits)
            self.note()
            here = self.table.snapshots()[-1].id, self.model.copy()
            self.at_barriers = {**self.at_barriers, self.barrier: here}
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
            if self.row["bucket"] != "postponed":
                self.note()  # else both wait for one compaction

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

    def put_under_barriers(self) -> None:
        """What it has belongs to its first complete barrier."""
        self.catalog.alter_table(self.name, set_options=UNDER_BARRIERS)
        self.is_under_barriers = True

    def _write_by_barriers(self, commits: list[Commit]) -> None:
        """Rows of the next barrier, which is complete with them."""
        self.barrier += INTERVAL
        if self.row["writers"] == "one":
            writer = self._writers.get(self.name)
            if writer is None:
                writer = self._writers[self.name] = self.catalog.writer(self.name, "left")
                self.note()  # to join is a snapshot without rows
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
                self._note(snapshot.id, self.model)

    # By another client

    def write_by_another_client(self) -> None:
        client = self.row["client"]
        if client == "pypaimon":
            rows, records = self._drawn_for_pypaimon()
        else:
            commit = self._draw()
            rows, records = self._rows(commit), commit.records
        self.others.writers[client](self.table, rows)
        self.model.write(records)

    def _drawn_for_pypaimon(self) -> tuple[pa.Table, Sequence[Record]]:
        """It takes rows with all columns, and no kinds."""
        commit = batch(self.rng, self.row["engine"], self.names, retracts=False)
        if self.row["engine"] == "partial-update by order":
            # It merges the records of a key before it writes them, and a merged row has no one place in the order.
            newest = {self.model.key_of(row): (kind, row) for kind, row in commit.records}
            commit = Commit(commit.columns, tuple(newest.values()))
        rows = self._rows(commit).drop_columns("_row_kind")
        whole = [
            rows.column(name).cast(kind.type)
            if name in rows.column_names
            else pa.nulls(len(rows), kind.type)
            for name, kind in zip(self.table.schema.names, self.table.arrow_schema, strict=True)
        ]
        records = [("+I", record) for _, record in commit.records]
        return pa.Table.from_arrays(whole, schema=self.table.arrow_schema), records
