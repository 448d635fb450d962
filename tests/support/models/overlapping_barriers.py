"""Histories of one or two tables under barriers, whose writers overlap: their records are on their way while others
commit, complete barriers and compact.

A row is that of all commits in their order; as of a barrier, that of the commits with labels up to it, in the same
order. Which label a commit gets is the rule's own (`Labels`). Where the tables stage their commits, a session looks at
them right before one is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hypothesis import strategies as st

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from tests.support.models.barrier_labels import INTERVAL, Labels
from tests.support.models.model import Model, Record
from tests.support.models.overlapping import MAX_KEYS, MOST_BEGUN
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import TableSpec, data_of, rows_of, stamped_commits, texts
from tests.support.models.strategies import owned_columns
from widetable.commit.barriers.barrier_state import Member
from widetable.operations.barriers.departed_writer import let_leave
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.operations.handle.barrier_scan import barrier_changes
from widetable.write.commit_message import CommitMessage

_STEPS: Final = (
    *("begin", "begin", "begin", "begin", "commit", "commit", "commit"),
    *("all complete", "all complete", "complete", "compact", "compact", "leave"),
)
# Of a table. The more there are, the seldomer a barrier is complete.
_WRITERS: Final = st.sampled_from([2, 2, 3, 3, MOST_BEGUN])


@dataclass
class Batch:
    """Records whose writer has its numbers and its files. barrier: that they are meant for. all: with them it is
    complete for the writer.
    """

    records: tuple[Record, ...]
    messages: list[CommitMessage]
    barrier: int
    all: bool


@dataclass
class Stream:
    """One writer: a query of Spark is one. number: of its next batch. batch: that is on its way."""

    name: str
    columns: tuple[str, ...]
    writer: JobWriter
    number: int = 0
    batch: Batch | None = None


@dataclass
class Labelled:
    """One of the tables. said: the label and the records of each commit, in their order. name: `db.table`."""

    name: str
    table: wt.Table
    spec: TableSpec
    labels: Labels = field(default_factory=Labels)
    said: list[tuple[int, tuple[Record, ...]]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)

    def join(self, data: st.DataObject, file_io: FaultyFileIO) -> None:
        """One more writer. All columns, or some."""
        schema, name = self.table.schema, f"w{len(self.streams)}"
        owned = data.draw(st.none() | owned_columns(schema), label="columns")
        columns = tuple(schema.names) if owned is None else owned
        table = wt.Table.open(self.table.path, file_io=file_io)
        writer = JobWriter(table, name, f"run of {name}", owned)
        self.streams.append(Stream(name, columns, writer))

    def begin(self, data: st.DataObject, stream: Stream) -> None:
        """A writer takes its numbers, and writes its files."""
        table, keys = wt.Table.open(self.table.path), self.spec.keys[:MAX_KEYS]
        commits = stamped_commits(table.schema, keys, 3, 1, stream.columns)
        drawn = data.draw(commits, label="records")
        rows = data_of(table.schema, drawn)
        barrier = self.barrier(data)
        with table.new_writer(rows.column_names, named=True) as writer:
            writer.write(rows)
            is_all = data.draw(st.integers(0, 3), label="all of it") > 0
            stream.batch = Batch(drawn.records, writer.finish(), barrier, is_all)

    def commit(self, stream: Stream, batch: Batch) -> None:
        """What is on its way."""
        lead = None if batch.all else Member(0, batch.barrier, "in another table")
        numbered = JobBatch(stream.number, batch.barrier, lead=lead)
        assert stream.writer.commit(batch.messages, numbered).committed
        self.say(stream, batch)
        stream.number += 1
        stream.batch = None

    def say(self, stream: Stream, batch: Batch) -> None:
        """Its records are the latest."""
        label = self.labels.written(stream.name, batch.barrier, all=batch.all)
        self.said.append((label, batch.records))

    def complete(self, stream: Stream, barrier: int) -> None:
        """Without records."""
        stream.writer.complete(barrier)
        self.labels.finish(stream.name, barrier)

    def leave(self, stream: Stream) -> None:
        """A writer that has joined is waited for no more; its next commit joins again."""
        if stream.name in self.labels.frontier:
            let_leave(self.table, stream.name)
            self.labels.leave(stream.name)

    def on_their_way(self, have_batch: bool) -> list[Stream]:
        """The writers whose records are on their way, or the others."""
        return [one for one in self.streams if (one.batch is not None) == have_batch]

    def model(self, barrier: int | None = None) -> Model:
        """Of the commits with labels up to a barrier; None: of all."""
        found = Model(self.table.schema)
        for label, records in self.said:
            if barrier is None or label <= barrier:
                found.write(records)
        return found

    def check(self) -> None:
        """The newest rows, and those as of each barrier."""
        self.table.wait_for_compactions()
        assert rows_of(self.table) == texts(self.model().rows())
        for barrier in range(INTERVAL, self.labels.complete + 1, INTERVAL):
            found = texts(python_rows(self.table.scan(barrier=barrier).to_arrow()))
            assert found == texts(self.model(barrier).rows()), f"at barrier {barrier}"

    def last_stop(self) -> int:
        """The last barrier that changes can stop at; 0 for none."""
        spans = barrier_changes(self.table).available(0)
        return max((last for _, last in spans), default=0)

    def barrier(self, data: st.DataObject) -> int:
        """The one that all writers come to next, or one beside it."""
        further = data.draw(st.sampled_from([1, 1, 1, 1, 2, 0]), label="barriers further")
        return max(INTERVAL, self.labels.complete + further * INTERVAL)


@dataclass
class OverlappingBarriers:
    """One history of one table or two. file_io: of all writers. looks: how often a session showed what was noted."""

    catalog: wt.Catalog
    tables: Sequence[Labelled]
    file_io: FaultyFileIO
    stages: bool
    looks: int = 0

    def run(self, data: st.DataObject, steps: int) -> None:
        """So many steps, then the commits of all that is on its way, and a barrier that has them."""
        for labelled in self.tables:
            for _ in range(data.draw(_WRITERS, label="writers")):
                labelled.join(data, self.file_io)
        for _ in range(steps):
            labelled = data.draw(st.sampled_from(self.tables), label="table")
            self.step(data, data.draw(st.sampled_from(_STEPS), label="step"), labelled)
        for labelled in self.tables:
            while left := labelled.on_their_way(True):
                self._commit(labelled, data.draw(st.sampled_from(left), label="writer"))
            self._all_complete(labelled)

    def step(self, data: st.DataObject, name: str, labelled: Labelled) -> None:
        """One step. A writer whose records are on their way commits them before it says more."""
        is_due = name == "commit" or not labelled.on_their_way(False)
        chosen = labelled.on_their_way(is_due) or labelled.streams
        stream = data.draw(st.sampled_from(chosen), label="writer")
        if name == "compact":
            labelled.table.compact(full=data.draw(st.booleans(), label="full"))
            self._check(labelled)
        elif name == "all complete":
            self._all_complete(labelled)
        elif stream.batch is not None:
            self._commit(labelled, stream)
        elif name == "complete":
            labelled.complete(stream, labelled.barrier(data))
            self._check(labelled)
        elif name == "leave":
            labelled.leave(stream)
            self._check(labelled)
        else:
            labelled.begin(data, stream)

    def _all_complete(self, labelled: Labelled) -> None:
        """All writers but those whose records are on their way say that they have the next barrier."""
        barrier = labelled.labels.complete + INTERVAL
        for stream in labelled.on_their_way(False):
            labelled.complete(stream, barrier)
        self._check(labelled)

    def _commit(self, labelled: Labelled, stream: Stream) -> None:
        batch = stream.batch
        assert batch is not None
        if self.stages and stream.name in labelled.labels.frontier:
            look = partial(self._look, labelled, stream, batch)
            self.file_io.run_before("publish", look, "/snapshot-")
        labelled.commit(stream, batch)
        self.file_io.heal()
        self._check(labelled)

    def _check(self, labelled: Labelled) -> None:
        """The table by itself, and all at the newest barrier that they have in common."""
        labelled.check()
        complete = min(one.labels.complete for one in self.tables)
        if complete:
            with self._session("RepeatableRead") as session:
                assert session.barrier == complete
                self._check_session(session)

    def _look(self, labelled: Labelled, stream: Stream, batch: Batch) -> None:
        """What a session sees while a commit is noted and not published: the rows that there will be, or those that
        there are.
        """
        before = labelled.labels.copy(), list(labelled.said)
        committed = min(one.labels.complete for one in self.tables)
        labelled.say(stream, batch)
        noted = min(one.labels.complete for one in self.tables)
        if committed:
            with self._session("ReadCommitted") as session:
                assert session.barrier in (committed, noted)
                self._check_session(session)
                self.looks += session.barrier != committed
        labelled.labels, labelled.said = before

    def _session(self, consistency: str) -> wt.Session:
        return self.catalog.session([one.name for one in self.tables], consistency=consistency)

    def _check_session(self, session: wt.Session) -> None:
        for one in self.tables:
            found = texts(python_rows(session.table(one.name).scan().to_arrow()))
            assert found == texts(one.model(session.barrier).rows()), f"at {session.barrier}"
