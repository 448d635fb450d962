"""Who started to follow when the producer had changed since the newest snapshot, missed rows or got them twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.changelog_follower import ROW_KIND, Follower

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64())])
PRODUCERS = ("none", "input", "lookup", "full-compaction")


def rows(*keys: int, a: int) -> pa.Table:
    return pa.table({"k": list(keys), "a": [a] * len(keys)})


def followed(table: wt.Table) -> Iterator[pa.RecordBatch]:
    """From the third snapshot, and later on from where it ended."""
    return table.follow("one", "from-snapshot-full", snapshot_id=3, timeout=0)


@pytest.mark.parametrize("late_start", [False, True])
@pytest.mark.parametrize("before", PRODUCERS)
@pytest.mark.parametrize("after", PRODUCERS)
def test_rows_at_the_start_and_changes_after_it_fit(
    tmp_path: Path, before: str, after: str, late_start: bool
) -> None:
    """late_start: from a snapshot that is not the newest any more."""
    catalog = wt.Catalog(str(tmp_path))
    options = {"changelog-producer": before, "write-only": "true"}
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    table.write(rows(1, 2, a=1))
    table.compact(full=True)
    table.write(rows(3, a=1))
    table = catalog.alter_table("db.t", set_options={"changelog-producer": after})
    batches = [] if late_start else list(followed(table))
    table.write(rows(4, 5, a=2))
    table.compact(full=True)
    batches += followed(table)
    changes = [(row.pop(ROW_KIND), row) for batch in batches for row in batch.to_pylist()]
    follower = Follower(table.schema)
    follower.apply(changes)
    follower.check(table.scan().to_arrow().to_pylist())
