"""With producer `full-compaction`, a table that was given more levels emitted all its rows once more as +I."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.changelog_follower import Follower, changes_of

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64())])


@pytest.mark.parametrize("more", [{"num-sorted-run.compaction-trigger": "5"}, {"num-levels": "9"}])
def test_rows_that_were_emitted_stay_emitted(tmp_path: Path, more: dict[str, str]) -> None:
    """By default the number of levels follows the compaction trigger."""
    catalog = wt.Catalog(str(tmp_path))
    options = {
        "changelog-producer": "full-compaction",
        "write-only": "true",
        "num-sorted-run.compaction-trigger": "2",
    }
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    table.write(pa.table({"k": [1, 2], "a": [1, 1]}))
    table.compact(full=True)
    table = catalog.alter_table("db.t", set_options=more)
    table.write(pa.table({"k": [1, 3], "a": [2, 2]}))
    first = next(iter(table.follow(scan_mode="from-snapshot-full", snapshot_id=3, timeout=0)))
    follower = Follower(table.schema, first.drop_columns(["_row_kind"]).to_pylist())
    follower.check([{"k": 1, "a": 1}, {"k": 2, "a": 1}])
    table.compact(full=True)
    changes = changes_of(table, 3, 4)
    assert [kind for kind, _ in changes] == ["-U", "+U", "+I"]
    follower.apply(changes)
    follower.check(table.scan().to_arrow().to_pylist())
    report = table.audit()
    assert report.ok, report
    assert not report.skipped
