"""Random tables and histories: commits, splits into batches, partial merges and reads give what the model says.

The model folds every record from scratch, so equality here is the law that the table does not depend on batch
boundaries, on which runs compaction merged, or on when.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.support.models.aggregates import ROWS
from tests.support.models.model import Model, Record
from tests.support.models.plain_rows import plain
from tests.support.models.strategies import commits, keys_of, tables
from tests.support.tables.bucket import Bucket
from widetable.format.row_budget import BATCH_BYTES
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

ENGINES = ["deduplicate", "partial-update", "aggregation", "first-row"]


def run_history(data: st.DataObject, schema: TableSchema) -> None:
    """Commits and partial merges in any order; after each step the rows must be the model's."""
    bucket = Bucket(
        schema, batch_bytes=data.draw(st.sampled_from([1, 50, 150, BATCH_BYTES]), "batch bytes")
    )
    model = Model(schema)
    keys = data.draw(keys_of(schema), "keys")
    for _ in range(data.draw(st.integers(1, 5), "steps")):
        commit = data.draw(commits(schema, keys), "commit")
        bucket.write(commit.records, commit.columns, data.draw(st.sampled_from([1, 3, 1000])))
        model.write(commit.records)
        if len(bucket.runs) > 1 and data.draw(st.booleans(), "compact"):
            first = data.draw(st.integers(0, len(bucket.runs) - 2))
            last = data.draw(st.integers(first + 2, len(bucket.runs)))
            note(f"compact {first} to {last}: {bucket.compact(first, last)}")
        assert plain(bucket.rows()) == plain(model.rows())
    chosen = data.draw(st.lists(st.sampled_from(schema.names), min_size=1, unique=True), "columns")
    expected = [
        {name: row[name] for name in schema.names if name in chosen} for row in model.rows()
    ]
    assert plain(bucket.rows(chosen)) == plain(expected)
    if bucket.runs and bucket.compact(0, len(bucket.runs)):
        assert plain(bucket.rows()) == plain(model.rows())


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
def test_any_history(engine: str, data: st.DataObject) -> None:
    run_history(data, data.draw(tables(engine, may_have_rowkind_field=True), "table"))


LISTS = [{}, {"nested-key": "id"}, {"nested-key": "id", "nested-sequence-field": "s"}]


def limited(options: dict[str, str], limit: int) -> TableSchema:
    """A list of rows, of so many at most."""
    said = {"aggregate-function": "nested_update", "count-limit": str(limit), **options}
    return new_schema(
        pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("r", ROWS)]),
        primary_key=["k"],
        options={
            "merge-engine": "aggregation",
            **{f"fields.r.{key}": value for key, value in said.items()},
        },
    )


def listed(kind: str, *rows: str) -> Record:
    """a1: the row of id a, number 1 in the order."""
    values = [{"id": ord(row[0]), "s": int(row[1:]), "v": None} for row in rows]
    return kind, {"k": 1, "r": values}


def rows_after(schema: TableSchema, commits: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    bucket = Bucket(schema)
    for commit in commits:
        bucket.write(commit)
    found: list[dict[str, Any]] = plain(bucket.rows())
    bucket.compact(0, len(bucket.runs))
    assert plain(bucket.rows()) == found
    return found


@pytest.mark.parametrize("options", LISTS, ids=str)
def test_a_commit_of_a_list_is_no_longer_than_its_limit(options: dict[str, str]) -> None:
    schema, records = limited(options, 2), [listed("+I", "a1", "b1"), listed("+I", "c1", "a2")]
    (row,) = rows_after(schema, [records])
    assert [each["id"] for each in row["r"]] == [ord("a"), ord("b")]
    assert [row] == rows_after(schema, [[record] for record in records])


@pytest.mark.parametrize("options", LISTS, ids=str)
def test_a_list_with_a_limit_does_not_depend_on_commits(
    options: dict[str, str], rng: random.Random
) -> None:
    for _ in range(30):
        schema, records = limited(options, rng.randint(0, 4)), list[Record]()
        for _ in range(rng.randint(1, 7)):
            rows = [f"{rng.choice('abcd')}{rng.randint(0, 2)}" for _ in range(rng.randint(0, 3))]
            records.append(listed(rng.choice(["+I", "+I", "+U", "-U", "-D"]), *rows))
        cuts = sorted(rng.sample(range(1, len(records) + 1), rng.randint(0, 1)))
        commits = [records[a:b] for a, b in pairwise([0, *cuts, len(records)])]
        model = Model(schema)
        model.write(records)
        assert rows_after(schema, commits) == plain(model.rows())
