"""Rows of different columns, written in one call, are the same rows written one after the other: of any table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.changelog_follower import Follower, changes_of
from tests.support.models.model import Model
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import (
    TableSpec,
    changelog_specs,
    data_of,
    make,
    rows_of,
    stamped_commits,
    table_specs,
    texts,
)
from tests.support.models.strategies import Commit
from widetable.schema.table_schema import TableSchema

WRITTEN: Final = "columns that are written"


@dataclass(frozen=True)
class Way:
    """How the rows get into the table. rows_per_batch: of the Arrow data; calls: of one writer."""

    options: dict[str, str]
    rows_per_batch: int = 1000
    calls: int = 1


PLAIN: Final = {
    "bucket": "1",
    "widetable.level0-columns": "written",
    "write-buffer-size": "256 mb",
    "write-only": "true",
}
WAYS: Final = {
    "one call": Way(PLAIN),
    "three buckets": Way({**PLAIN, "bucket": "3"}),
    "full-width level 0": Way({**PLAIN, "widetable.level0-columns": "all"}),
    "spilled": Way({**PLAIN, "write-buffer-size": "1 kb"}, rows_per_batch=1),
    "spilled in between": Way({**PLAIN, "write-buffer-size": "1 kb"}),
    "compacted": Way({**PLAIN, "write-only": "false", "num-sorted-run.compaction-trigger": "2"}),
    "two calls of a writer": Way(PLAIN, calls=2),
}


@st.composite
def operations(draw: st.DrawFn) -> tuple[TableSpec, list[Commit]]:
    spec = draw(table_specs())
    return spec, draw(st.lists(stamped_commits(spec.schema, spec.keys), min_size=1, max_size=8))


def together(schema: TableSchema, commits: Sequence[Commit]) -> pa.Table:
    """The records of all commits in one table, with the columns that each of them wrote."""
    parts = []
    for commit in commits:
        part = data_of(schema, commit)
        listed = pa.array([list(commit.columns)] * part.num_rows, pa.list_(pa.string()))
        parts.append(part.append_column(WRITTEN, listed))
    fields = {field.name: field.with_nullable(True) for part in parts for field in part.schema}
    parts = [part.cast(pa.schema([fields[name] for name in part.column_names])) for part in parts]
    return pa.concat_tables(parts, promote_options="default").combine_chunks()


def write(table: wt.Table, rows: pa.Table, way: Way) -> None:
    """Write the rows in one commit."""
    if not rows.num_rows:
        return
    with table.new_writer(rows.column_names, written_columns=WRITTEN) as writer:
        for number in range(way.calls):
            first, end = (rows.num_rows * each // way.calls for each in (number, number + 1))
            batches = rows[first:end].to_batches(max_chunksize=way.rows_per_batch)
            writer.write(pa.RecordBatchReader.from_batches(rows.schema, batches))
        messages = writer.finish()
    if messages:
        table.commit_append(messages)


@settings(max_examples=max(5, settings().max_examples // 4))
@given(drawn=operations(), way=st.sampled_from(list(WAYS.values())))
def test_rows_of_one_call_are_those_of_many(
    drawn: tuple[TableSpec, list[Commit]], way: Way
) -> None:
    spec, commits = drawn
    model = Model(spec.schema)
    for commit in commits:
        model.write(commit.records)
    expected = texts(model.rows())
    with TemporaryDirectory() as folder:
        table = make(folder, spec.with_options(way.options))
        write(table, together(spec.schema, commits), way)
        assert rows_of(table) == expected
        table.compact(full=True)
        assert rows_of(table) == expected, "compacted fully"


def by_key(changes: Sequence[tuple[str, dict[str, Any]]], schema: TableSchema) -> dict[str, Any]:
    """The changes of each key, in any order: in a commit `sequence.field` orders them."""
    keys: dict[str, Any] = {}
    for kind, row in changes:
        (key,) = texts([row], schema.primary_keys)
        keys.setdefault(key, []).append((kind, *texts([row])))
    return {key: sorted(changes) for key, changes in keys.items()}


@settings(max_examples=max(5, settings().max_examples // 8))
@given(data=st.data())
def test_the_changelog_of_an_input_has_every_row_as_it_is_alone(data: st.DataObject) -> None:
    spec = data.draw(changelog_specs("input"))
    drawn = st.lists(stamped_commits(spec.schema, spec.keys), min_size=1, max_size=6)
    commits = data.draw(drawn)
    with TemporaryDirectory() as one, TemporaryDirectory() as many:
        table, others = make(one, spec), make(many, spec)
        write(table, together(spec.schema, commits), WAYS["one call"])
        for commit in commits:
            others.write(data_of(spec.schema, commit))
        changes, expected = (
            by_key(changes_of(each, 0, len(each.snapshots())), spec.schema)
            for each in (table, others)
        )
    assert changes == expected


@settings(max_examples=max(5, settings().max_examples // 8))
@given(data=st.data())
def test_changes_of_a_lookup_lead_from_rows_to_rows(data: st.DataObject) -> None:
    # A gentle compaction may leave level 0, whose rows are read and whose changes are not emitted yet.
    spec = data.draw(changelog_specs("lookup")).with_options({"lookup-compact": "radical"})
    drawn = st.lists(stamped_commits(spec.schema, spec.keys), min_size=2, max_size=6)
    commits = data.draw(drawn)
    with TemporaryDirectory() as folder:
        table = make(folder, spec)
        follower = Follower(table.schema, uncompared=Model(spec.schema).uncompared)
        for part in (commits[:2], commits[2:]):
            before = table.snapshots()[-1].id if table.snapshots() else 0
            if part:
                write(table, together(spec.schema, part), WAYS["one call"])
            table.compact()
            last = table.snapshots()[-1].id if table.snapshots() else 0
            follower.apply(changes_of(table, before, last) if last > before else ())
            follower.check(python_rows(table.scan().to_arrow()))
