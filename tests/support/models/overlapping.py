"""Histories of writers whose commits overlap: begun in one order, committed in another, compacted at any moment.

The order of commits alone decides what the rows are; so `model` is given each commit when it is made. A history
draws its steps from Hypothesis and may be checked after each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.model import Model, Record, Row
from tests.support.models.random_table import TableSpec, data_of, rows_of, stamped_commits, texts
from widetable.write.commit_message import CommitMessage

# Writers that have begun and not committed, at most.
MOST_BEGUN: Final = 5
MAX_KEYS: Final = 2
_STEPS: Final = ("begin", "begin", "commit", "commit", "commit", "compact")


@dataclass
class Begun:
    """A writer that has its numbers and its files. table: by which it commits. rows: its records, as a user gives them.

    is_stale: the table has begun another life since, which its handle may be told, or its files' schema is gone.
    """

    records: tuple[Record, ...]
    rows: pa.Table
    messages: list[CommitMessage]
    table: wt.Table
    is_stale: bool = False


def messages_of(table: wt.Table, rows: pa.Table) -> list[CommitMessage]:
    """The files of a writer that begins now."""
    with table.new_writer(rows.column_names) as writer:
        writer.write(rows)
        return writer.finish()


@dataclass
class Overlapping:
    """One history of a table. check: called after each commit and compaction.

    commits: how many were made, so that a test can say that its histories are not empty. has_retractions: False for
    adds alone. written: all rows that were committed.
    """

    table: wt.Table
    spec: TableSpec
    check: Callable[[], None] = lambda: None
    has_retractions: bool = True
    commits: int = 0
    written: list[Row] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = Model(self.table.schema)

    def run(self, data: st.DataObject, steps: int) -> None:
        """So many steps, then the commits of all that have begun."""
        for _ in range(steps):
            self.step(data, data.draw(st.sampled_from(_STEPS), label="step"))
        while self.begun:
            self.commit(data)

    def step(self, data: st.DataObject, name: str) -> None:
        """One step; one that cannot be made now begins a writer."""
        if name == "compact" and self.commits:
            self.compact(data)
        elif (name == "commit" and self.begun) or len(self.begun) == MOST_BEGUN:
            self.commit(data)
        else:
            self.begin(data)

    def begin(self, data: st.DataObject) -> None:
        """A writer takes its numbers and writes its files."""
        schema, keys = self.model.schema, self.spec.keys[:MAX_KEYS]
        drawn = data.draw(stamped_commits(schema, keys, 3, 1), label="records")
        if not self.has_retractions:
            adds = tuple(record for record in drawn.records if self.model.is_add(record))
            drawn = replace(drawn, records=adds)
        rows, table = data_of(schema, drawn), self.handle(data)
        self.begun.append(Begun(drawn.records, rows, messages_of(table, rows), table))

    def commit(self, data: st.DataObject) -> None:
        """One of the writers commits: its records are the latest."""
        place = data.draw(st.integers(0, len(self.begun) - 1), label="writer")
        one = self.begun.pop(place)
        self.model.write(one.records)
        self.written += [row for _, row in one.records]
        if one.messages:
            assert self.committed(one).committed
            self.commits += 1
            self.check()

    def committed(self, one: Begun) -> wt.CommitResult:
        """The commit of a writer."""
        return one.table.commit_append(one.messages)

    def compact(self, data: st.DataObject) -> None:
        """By the writers' own handle, or by somebody else."""
        self.handle(data).compact(full=data.draw(st.booleans(), label="full"))
        self.check()

    def handle(self, data: st.DataObject) -> wt.Table:
        """The table as most writers have it open, or as another process opens it."""
        is_other = data.draw(st.booleans(), label="another process")
        return wt.Table.open(self.table.path) if is_other else self.table

    def check_rows(self) -> None:
        """The rows are those of all commits in their order."""
        self.table.wait_for_compactions()
        assert rows_of(self.table) == texts(self.model.rows())
