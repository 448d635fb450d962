"""The audit of a table compares its rows with the newest versions in its history."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.plain_rows import python_rows
from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.versions.history_feed import feed_history
from widetable.operations.writes.table_commit import append_messages
from widetable.operations.writes.table_write import any_writer

COLUMNS = {"area": "STRING", "id": "BIGINT", "v": "DOUBLE", "w": "STRING"}
KEY = ["area", "id"]
NO_ROW = "no version, or a deleted one"


def made(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    given = {"history.table": "db.h", "widetable.fsync": "false", "bucket": "2", **(options or {})}
    return wt.Catalog(str(folder)).create_table("db.t", COLUMNS, primary_key=KEY, options=given)


def row(id: int, v: float, w: str | None = "w") -> dict[str, Any]:
    return {"area": "a", "id": id, "v": v, "w": w}


def history_of(table: wt.Table) -> wt.Table:
    return wt.Table.open(str(Path(table.path).with_name("h")))


def spoiled(table: wt.Table, change: Any) -> None:
    """Commit other versions into the history, which refuses them from others than its maintainer."""
    history = history_of(table)
    versions = history.scan().to_arrow()
    with any_writer(history, versions.column_names) as writer:
        writer.write(change(versions))
        messages = writer.finish()
    append_messages(history, messages, Identity("test", 1))


@pytest.mark.parametrize("producer", ["none", "lookup", "input", "full-compaction"])
def test_random_commits_leave_a_history_without_findings(
    tmp_path: Path, rng: random.Random, producer: str
) -> None:
    table = made(tmp_path, {"changelog-producer": producer})
    for _ in range(12):
        ids = rng.sample(range(9), 3)
        if rng.random() < 0.3:
            table.delete_keys([{"area": "a", "id": id} for id in ids])
        else:
            values = [0.0, -0.0, float("nan"), 1.5]
            table.write([row(id, rng.choice(values), rng.choice([None, "x"])) for id in ids])
        ids = [each.id for each in table.snapshots()]
        if ids and rng.random() < 0.3:
            table.rollback(rng.choice(ids[-2:]))
        if rng.random() < 0.5:
            feed_history(table)
    feed_history(table)
    table.write([row(99, 1.0)])  # the history does not have it yet
    report = table.audit()
    assert report.ok, report
    assert report.checks["history"] == len(python_rows(table.scan().to_arrow())) - 1
    assert not [each for each in report.skipped if "history" in each]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("v", 7.0, "the row in db.h"),
        ("w", None, "the row in db.h"),
        ("_deleted", True, "the row in db.h"),
    ],
)
def test_a_version_that_is_not_the_row_is_a_finding(
    tmp_path: Path, name: str, value: Any, expected: str
) -> None:
    table = made(tmp_path)
    table.write([row(1, 1.0), row(2, 2.0)])
    feed_history(table)
    assert table.audit().ok

    def change(versions: pa.Table) -> pa.Table:
        one = versions.filter(pa.compute.equal(versions["id"], 2))
        place = one.column_names.index(name)
        field = one.schema.field(name)
        return one.set_column(place, field, pa.array([value], field.type))

    spoiled(table, change)
    report = table.audit()
    assert report.found == {"history": 1}
    (finding,) = report.findings
    assert (finding.expected, finding.key) == (expected, {"area": "a", "id": 2})


def test_a_version_without_a_row_is_a_finding_unless_it_is_deleted(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, 1.0), row(2, 2.0)])
    table.delete_keys([{"area": "a", "id": 2}])
    feed_history(table)
    assert table.audit().ok

    def change(versions: pa.Table) -> pa.Table:
        one = versions.filter(pa.compute.equal(versions["id"], 1))
        return one.set_column(1, one.schema.field("id"), pa.array([3], pa.int64()))

    spoiled(table, change)
    report = table.audit()
    assert [(each.expected, each.key) for each in report.findings] == [
        (NO_ROW, {"area": "a", "id": 3})
    ]


def test_many_findings_are_counted_and_some_are_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(id, 1.0) for id in range(9_000)])
    feed_history(table)
    spoiled(
        table,
        lambda rows: rows.set_column(
            rows.column_names.index("v"), rows.schema.field("v"), pa.array([2.0] * rows.num_rows)
        ),
    )
    report = table.audit(findings_per_law=3)
    assert report.found == {"history": 9_000}
    assert len(report.findings) == 3


def test_without_versions_or_snapshots_the_law_is_skipped_with_the_reason(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, 1.0)])
    report = table.audit()
    assert report.ok
    assert any("db.h has no versions yet" in each for each in report.skipped)
    feed_history(table)
    table.delete_consumer("history")
    for v in (2.0, 3.0):
        table.write([row(1, v)])
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
    report = table.audit()
    assert report.ok
    assert any(each.startswith("law history: ") for each in report.skipped), report.skipped


def test_only_kept_columns_are_compared(tmp_path: Path) -> None:
    table = made(tmp_path, {"history.columns": "v"})
    table.write([row(1, 1.0)])
    feed_history(table)
    table.write([row(1, 1.0, "other")])
    feed_history(table)
    report = table.audit()
    assert report.ok
    assert report.checks["history"] == 1
