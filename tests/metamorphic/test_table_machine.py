"""One table under any sequence of calls: whatever was written, replayed, overtaken, compacted and altered, every read
gives what `tests.support.models.model` gives by merging all commits from scratch.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import widetable as wt
from tests.support.models.model import Model, Row
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import (
    NAME,
    TableSpec,
    check_levels,
    data_of,
    has_effect,
    in_two_tasks,
    make,
    rows_of,
    stamped_commits,
    table_specs,
    texts,
)
from tests.support.models.strategies import ORDERED, Commit, drawn_snapshot
from widetable.write.commit_message import CommitMessage

USERS: Final = ("left", "right", "third")
# Writers that have begun and not committed, at most.
MOST_BEGUN: Final = 4
COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


class TableMachine(RuleBasedStateMachine):
    """remembered: what each snapshot held when it was the newest one."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.next_identifier = dict.fromkeys(USERS, 0)
        self.committed: list[tuple[str, int]] = []
        self.remembered: dict[int, list[str]] = {}
        self.tags: dict[str, list[str]] = {}
        self.begun: list[tuple[Commit, list[CommitMessage]]] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(spec=table_specs())
    def create(self, spec: TableSpec) -> None:
        self.spec = spec
        self.table = make(self.folder.name, spec)
        self.model = Model(self.table.schema)

    # Writing

    @rule(data=st.data(), user=st.sampled_from(USERS))
    def write(self, data: st.DataObject, user: str) -> None:
        commit = self._draw(data)
        identifier = self._take_identifier(user)
        result = self.table.write(data_of(self.model.schema, commit), user, identifier)
        assert result.committed is has_effect(self.model, commit.records)
        self.model.write(commit.records)
        self._note(user, identifier, result)

    @rule(data=st.data(), user=st.sampled_from(USERS))
    def write_in_tasks(self, data: st.DataObject, user: str) -> None:
        """Two writers of one commit, the second gets what comes after."""
        commit = self._draw(data)
        identifier = self._take_identifier(user)
        cut = data.draw(st.integers(0, len(commit.records)), label="cut")
        messages = in_two_tasks(self.table, data_of(self.model.schema, commit), cut)
        if messages:
            result = self.table.commit_append(messages, user, identifier)
            self.model.write(commit.records)
            self._note(user, identifier, result)
            time.sleep(0.004)

    @precondition(lambda self: len(self.begun) < MOST_BEGUN)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """A writer takes its numbers and writes its files; it commits when others have, and compacted, or altered."""
        commit = self._draw(data)
        part = data_of(self.model.schema, commit)
        with self.table.new_writer(part.column_names) as writer:
            writer.write(part)
            self.begun.append((commit, writer.finish()))

    @precondition(lambda self: self.begun)
    @rule(data=st.data(), user=st.sampled_from(USERS))
    def commit_what_was_begun(self, data: st.DataObject, user: str) -> None:
        """Its records come last, whoever compacted what since it began."""
        place = data.draw(st.integers(0, len(self.begun) - 1), label="writer")
        commit, messages = self.begun.pop(place)
        self.model.write(commit.records)
        self._commit(messages, user)

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """What is in commits nothing; whether it is that, a lower number alone does not say."""
        user, identifier = data.draw(st.sampled_from(self.committed), label="replayed")
        rows = data_of(self.model.schema, self._draw(data))
        before = len(self.table.snapshots())
        is_last = identifier == max(number for name, number in self.committed if name == user)
        if not is_last:
            with pytest.raises(wt.InvalidError, match="replay=True"):
                self.table.write(rows, user, identifier)
        assert not self.table.write(rows, user, identifier, replay=not is_last).committed
        assert len(self.table.snapshots()) == before
        assert self.table.find_commit(user, identifier) is not None

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        self.table.compact(full=full)
        self._remember()

    @precondition(lambda self: len(self.model.schema.names) < 16)
    @rule(kind=st.sampled_from([pa.int32(), pa.string(), pa.float64()]))
    def add_column(self, kind: pa.DataType) -> None:
        name = f"new{len(self.model.schema.names)}"
        self.table = wt.Catalog(self.folder.name).alter_table(
            NAME, add_columns=[pa.field(name, kind)]
        )
        self.model.alter(self.table.schema)

    @rule()
    def reopen(self) -> None:
        self.table = wt.Table.open(self.table.path)

    # Reading

    @rule(data=st.data())
    def read_some(self, data: st.DataObject) -> None:
        """Some columns of the rows that meet one or two conditions."""
        names = data.draw(
            st.lists(st.sampled_from(self.model.schema.names), min_size=1, unique=True)
        )
        condition, meets = self._draw_condition(data, self.model.schema.primary_keys)
        if data.draw(st.booleans(), label="two conditions"):
            other, also = self._draw_condition(data, self.model.schema.names)
            rows = [row for row in self.model.rows() if meets(row) and also(row)]
            condition = condition & other
        else:
            rows = [row for row in self.model.rows() if meets(row)]
        found = self.table.scan(columns=names, filter=condition).to_arrow()
        assert found.column_names == names
        assert texts(python_rows(found)) == texts(rows, names)

    @precondition(lambda self: self.remembered)
    @rule(data=st.data())
    def read_the_past(self, data: st.DataObject) -> None:
        id = drawn_snapshot(data, self.remembered)
        assert rows_of(self.table, snapshot_id=id) == self.remembered[id]

    @precondition(lambda self: self.remembered)
    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        id = drawn_snapshot(data, self.remembered)
        name = f"tag-{len(self.tags)}"
        self.table.create_tag(name, id)
        self.tags[name] = self.remembered[id]

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def read_a_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tags)), label="tag")
        assert rows_of(self.table, tag=name) == self.tags[name]
        assert list(self.table.tags()) == sorted(self.tags)

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        assert rows_of(self.table) == texts(self.model.rows())

    @invariant()
    def levels_are_disjoint(self) -> None:
        check_levels(self.table.path, self.model.schema)

    # Steps of the rules

    def _draw(self, data: st.DataObject) -> Commit:
        return data.draw(stamped_commits(self.model.schema, self.spec.keys), label="commit")

    def _draw_condition(
        self, data: st.DataObject, names: tuple[str, ...]
    ) -> tuple[pc.Expression, Callable[[Row], bool]]:
        """A condition on one of the columns, and what it means. Null meets none but IS NULL."""
        types = {name: self.model.schema.arrow_schema([name]).field(0).type for name in names}
        comparable = [name for name in names if types[name] in ORDERED]
        name = data.draw(st.sampled_from(comparable or list(names)), label="column")
        if name not in comparable or data.draw(st.integers(0, 3)) == 0:
            return pc.field(name).is_null(), lambda row: row[name] is None
        value = data.draw(ORDERED[types[name]], label="value")
        signs = ["=="] if types[name] == pa.bool_() else list(COMPARISONS)
        compare = COMPARISONS[data.draw(st.sampled_from(signs), label="comparison")]
        condition = compare(pc.field(name), pc.scalar(pa.scalar(value, types[name])))
        return condition, lambda row: row[name] is not None and compare(row[name], value)

    def _take_identifier(self, user: str) -> int:
        self.next_identifier[user] += 1
        return self.next_identifier[user]

    def _commit(self, messages: list[CommitMessage], user: str) -> None:
        if messages:
            identifier = self._take_identifier(user)
            result = self.table.commit_append(messages, user, identifier)
            assert result.committed
            self._note(user, identifier, result)

    def _note(self, user: str, identifier: int, result: wt.CommitResult) -> None:
        if result.committed:
            self.committed.append((user, identifier))
        self._remember()

    def _remember(self) -> None:
        """All snapshots that are new, an append and what was compacted after it, hold the same rows."""
        rows = texts(self.model.rows())
        for snapshot in self.table.snapshots():
            self.remembered.setdefault(snapshot.id, rows)


TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = settings(max_examples=settings().max_examples, stateful_step_count=15)
