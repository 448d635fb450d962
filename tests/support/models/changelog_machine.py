"""A table with a changelog, as a Hypothesis state machine; tests/metamorphic/test_changelog_machine.py runs it.

After every step, snapshot by snapshot: the changes of the buckets whose rows moved up are those of the model since the
last time, others have none; each change fits to what was emitted before (`Follower`); and all of it is the model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import widetable as wt
from tests.support.models.changelog_follower import ROW_KIND, Follower, change_texts, changes_of
from tests.support.models.model import Key, Model, Record, Row, ordered
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.random_table import (
    CHANGELOG_LAYOUT,
    NAME,
    TableSpec,
    base_commits,
    changelog_specs,
    check_levels,
    column_changes,
    data_of,
    has_effect,
    in_two_tasks,
    live_files,
    make,
    place_of,
    rows_of,
    stamped_commits,
    texts,
)
from tests.support.models.strategies import Commit, drawn_snapshot
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.snapshot import Snapshot
from widetable.write.commit_message import CommitMessage

USERS: Final = ("left", "right", "third")
# Writers that have begun and not committed, at most.
MOST_BEGUN: Final = 4
Parts = Sequence[Sequence[Record]]


class ChangelogMachine(RuleBasedStateMachine):
    """model: all commits. emitted: those whose rows moved up, bucket by bucket. follower: reads every change.

    producer, layout: options of the tables. changes: of each snapshot since the columns changed, as texts. settled: the
    snapshots at which all was emitted.
    """

    producer: ClassVar[str]
    layout: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.next_identifier = dict.fromkeys(USERS, 0)
        self.committed: list[tuple[str, int]] = []
        self.seen = 0
        self.changes: dict[int, list[str]] = {}
        self.settled: set[int] = set()
        self.places: dict[Key, BucketId] = {}
        self.begun: list[tuple[Sequence[Record], list[CommitMessage]]] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    def specs(self) -> st.SearchStrategy[TableSpec]:
        """Tables to begin with."""
        return changelog_specs(self.producer)

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        spec = data.draw(self.specs(), label="table")
        self.spec = spec.with_options(self.layout)
        self.table = make(self.folder.name, self.spec)
        self.model = Model(self.table.schema)
        self.emitted = self.model.copy()
        self.follow()
        if data.draw(st.sampled_from([True, True, False]), label="has a base"):
            self._write(data.draw(base_commits(self.spec), label="base"), USERS[0])
            self.compact(full=True)

    # Writing

    @rule(data=st.data(), user=st.sampled_from(USERS), count=st.sampled_from([1, 1, 2, 5]))
    def write(self, data: st.DataObject, user: str, count: int) -> None:
        for _ in range(count):
            self._write(self._draw(data), user)

    def _write(self, commit: Commit, user: str) -> None:
        identifier = self._take_identifier(user)
        result = self.table.write(data_of(self.model.schema, commit), user, identifier)
        assert result.committed is has_effect(self.model, commit.records)
        self.model.write(commit.records)
        if result.committed:
            self._note_commit(user, identifier, [commit.records])

    @rule(data=st.data(), user=st.sampled_from(USERS))
    def write_in_tasks(self, data: st.DataObject, user: str) -> None:
        """Two writers of one commit, the second gets what comes after."""
        commit = self._draw(data)
        cut = data.draw(st.integers(0, len(commit.records)), label="cut")
        messages = in_two_tasks(self.table, data_of(self.model.schema, commit), cut)
        self.model.write(commit.records)
        self._commit(messages, user, [commit.records[:cut], commit.records[cut:]])
        time.sleep(0.004)

    @precondition(lambda self: len(self.begun) < MOST_BEGUN)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """A writer takes its numbers and writes its files; it commits when others have, and compacted, or altered."""
        commit = self._draw(data)
        self.begun.append((commit.records, self._written(commit)))

    @precondition(lambda self: self.begun)
    @rule(data=st.data(), user=st.sampled_from(USERS))
    def commit_what_was_begun(self, data: st.DataObject, user: str) -> None:
        """Its records come last, whoever compacted what since it began."""
        place = data.draw(st.integers(0, len(self.begun) - 1), label="writer")
        records, messages = self.begun.pop(place)
        self.model.write(records)
        self._commit(messages, user, [records])

    def _written(self, commit: Commit) -> list[CommitMessage]:
        rows = data_of(self.model.schema, commit)
        writer = self.table.new_writer(rows.column_names)
        writer.write(rows)
        return writer.finish()

    @rule()
    def write_nothing(self) -> None:
        schema = self.model.schema
        empty = data_of(schema, Commit(schema.names, ()))
        assert not self.table.write(empty, USERS[0], self._take_identifier(USERS[0])).committed
        self._observe()

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """What is in commits nothing, and is emitted to nobody."""
        user, identifier = data.draw(st.sampled_from(self.committed), label="replayed")
        rows = data_of(self.model.schema, self._draw(data))
        assert not self.table.write(rows, user, identifier, replay=True).committed
        self._observe()

    # What readers of changes do not notice

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        """A compactor beside the writer."""
        wt.Table.open(self.table.path).compact(full=full)
        self._observe()

    @rule(data=st.data())
    def lay_out_otherwise(self, data: st.DataObject) -> None:
        names = st.sampled_from(sorted(CHANGELOG_LAYOUT))
        chosen = data.draw(st.lists(names, min_size=1, max_size=3, unique=True), label="options")
        options = {name: data.draw(st.sampled_from(CHANGELOG_LAYOUT[name])) for name in chosen}
        self._alter({}, set_options=options)

    @precondition(lambda self: len(self.model.schema.names) < 16)
    @rule(data=st.data())
    def change_columns(self, data: st.DataObject) -> None:
        change = data.draw(column_changes(self.model.schema), label="change")
        self._alter(change.get("rename_columns", {}), **change)
        self.changes.clear()
        self.settled.clear()

    # Reading

    @precondition(lambda self: self.changes)
    @rule(data=st.data())
    def read_a_range(self, data: st.DataObject) -> None:
        """The changes of several snapshots are those of each, one after the other; of some columns, just these."""
        ids = sorted(self.changes)
        start = data.draw(st.integers(ids[0] - 1, ids[-1]), label="start")
        end = data.draw(st.integers(start, ids[-1]), label="end")
        changes = changes_of(self.table, start, end)
        expected = [text for id in range(start + 1, end + 1) for text in self.changes[id]]
        assert change_texts(changes) == expected
        names = data.draw(
            st.lists(st.sampled_from(self.model.schema.names), min_size=1, unique=True)
        )
        some = changes_of(self.table, start, end, columns=names)
        assert change_texts(some) == change_texts(
            (kind, {name: row[name] for name in names}) for kind, row in changes
        )

    @precondition(lambda self: len(self.settled) > 1)
    @rule(data=st.data())
    def follow_from_the_past(self, data: st.DataObject) -> None:
        """The rows at a snapshot with the changes up to a later one are the rows at the later one."""
        end = drawn_snapshot(data, sorted(self.settled)[1:])
        start = drawn_snapshot(data, [id for id in self.settled if id < end])
        rows = python_rows(self.table.scan(snapshot_id=start).to_arrow())
        follower = Follower(self.model.schema, rows, self.model.uncompared)
        follower.apply(changes_of(self.table, start, end))
        follower.check(python_rows(self.table.scan(snapshot_id=end).to_arrow()))

    @precondition(lambda self: self.seen)
    @rule()
    def follow_from_now(self) -> None:
        """Who starts to follow first gets what was emitted until then, as inserts."""
        batches = list(self.table.follow(timeout=0))
        changes = [row for batch in batches for row in python_rows(batch)]
        assert {row.pop(ROW_KIND) for row in changes} <= {"+I"}
        self.check_start(changes)

    def check_start(self, rows: list[Row]) -> None:
        """What one gets who starts to follow now."""
        assert texts(rows) == texts(self.emitted.rows())

    # With the smallest buffer the audit reads a large base hundreds of times.
    @precondition(lambda self: self.model.schema.options["write-buffer-size"] == "256 mb")
    @rule()
    def audit(self) -> None:
        """The table's own audit agrees; it can say nothing of what was emitted before columns or producers changed."""
        report = self.table.audit()
        assert report.ok, report

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        """Rows by key, whatever was compacted and emitted; keys that are not there, and keys twice."""
        schema = self.model.schema
        keys = [
            {name: key[name] for name in schema.primary_keys}
            for key in data.draw(
                st.lists(st.sampled_from(self.spec.keys), max_size=4), label="keys"
            )
        ]
        names = data.draw(st.lists(st.sampled_from(schema.names), min_size=1, unique=True))
        rows = {self.model.key_of(row): row for row in self.model.rows()}
        absent = dict.fromkeys(schema.names)
        expected = [rows.get(self.model.key_of(key), absent) for key in keys]
        found = self.table.lookup(
            pa.Table.from_pylist(keys, schema=schema.arrow_schema(schema.primary_keys)), names
        )
        assert [plain(row) for row in python_rows(found)] == [
            plain({name: row[name] for name in names}) for row in expected
        ]

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        assert rows_of(self.table) == texts(self.model.rows())
        check_levels(self.table.path, self.model.schema)

    # What is emitted

    def is_emitted(self, files: Sequence[DataFileMeta]) -> bool:
        """Whether all rows of a bucket with these live files were emitted."""
        return all(file.level > 0 for file in files)

    def follow(self) -> None:
        """Start to follow from what was emitted."""
        self.follower = Follower(self.model.schema, self.emitted.rows(), self.model.uncompared)

    def check_snapshot(self, snapshot: Snapshot, parts: Parts) -> None:
        """parts: the records of the commit that was made last, task by task."""
        expected = self._catch_up(snapshot)
        changes = self._note_changes(snapshot)
        assert change_texts(changes) == change_texts(expected)
        self.follower.apply(changes)
        self.follower.check(self.emitted.rows())
        if texts(self.emitted.rows()) == texts(self.model.rows()):
            self.settled.add(snapshot.id)

    def _catch_up(self, snapshot: Snapshot) -> list[Record]:
        """What has to be emitted with this snapshot, in the order of partitions, buckets and keys."""
        waiting = self._waiting(snapshot)
        changes = [
            change
            for change in self.model.changes_since(self.emitted)
            if self._place(change[1]) not in waiting
        ]
        self.emitted.catch_up(self.model, lambda row: self._place(row) not in waiting)
        return sorted(changes, key=lambda change: self._order(change[1]))

    def _waiting(self, snapshot: Snapshot | None = None) -> set[BucketId]:
        """The buckets that have rows at a snapshot, the newest by default, that are yet to be emitted."""
        files = live_files(self.table.path, snapshot)
        return {place for place, found in files.items() if not self.is_emitted(found)}

    def _note_changes(self, snapshot: Snapshot) -> list[Record]:
        changes = changes_of(self.table, snapshot.id - 1, snapshot.id)
        self.changes[snapshot.id] = change_texts(changes)
        return changes

    def _observe(self, parts: Parts = ()) -> None:
        """Look at every snapshot that is new, those behind commits included."""
        self.table.wait_for_compactions()
        for snapshot in self.table.snapshots():
            if snapshot.id > self.seen:
                self.seen = snapshot.id
                self.check_snapshot(snapshot, parts)

    # Steps of the rules

    def _draw(self, data: st.DataObject) -> Commit:
        return data.draw(stamped_commits(self.model.schema, self.spec.keys), label="commit")

    def _place(self, row: Row) -> BucketId:
        key = self.model.key_of(row)
        if key not in self.places:
            self.places[key] = place_of(self.model.schema, row)
        return self.places[key]

    def _order(self, row: Row) -> tuple[Any, ...]:
        schema = self.model.schema
        partition = [ordered(row[name]) for name in schema.partition_keys]
        key = [ordered(row[name]) for name in schema.trimmed_primary_key]
        return partition, self._place(row)[1], key

    def _alter(self, renamed: Mapping[str, str], **change: Any) -> None:
        self.table = wt.Catalog(self.folder.name).alter_table(NAME, **change)
        for each in (self.model, self.emitted, self.follower):
            each.alter(self.table.schema, renamed)
        self.follower.uncompared = self.model.uncompared
        old_name = {new: old for old, new in renamed.items()}
        names = {name: old_name.get(name, name) for name in self.table.schema.names}
        self.begun = [
            (
                [
                    (kind, {n: row[o] for n, o in names.items() if o in row})
                    for kind, row in records
                ],
                messages,
            )
            for records, messages in self.begun
        ]

    def _take_identifier(self, user: str) -> int:
        self.next_identifier[user] += 1
        return self.next_identifier[user]

    def _commit(self, messages: list[CommitMessage], user: str, parts: Parts) -> None:
        if messages:
            identifier = self._take_identifier(user)
            assert self.table.commit_append(messages, user, identifier).committed
            self._note_commit(user, identifier, parts)

    def _note_commit(self, user: str, identifier: int, parts: Parts) -> None:
        self.committed.append((user, identifier))
        self._observe(parts)
