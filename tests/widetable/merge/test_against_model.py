"""Random tables and histories: commits, splits into batches, partial merges and reads give what the model says.

The model folds every record from scratch, so equality here is the law that the table does not depend on batch
boundaries, on which runs compaction merged, or on when.
"""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.bucket import Bucket
from tests.model import Model
from tests.plain_rows import plain
from tests.strategies import commits, keys_of, tables
from widetable.format.row_budget import BATCH_BYTES
from widetable.schema import TableSchema

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
