"""A table under two masters at once: a streaming writer of Paimon's Java and one of ours, both with a lookup changelog.

One of them compacts (Paimon: "dedicated compaction"), or both do: then commits of Java's writer are refused, and it
writes them again, as a job that starts anew. What it emits then is of the levels as it knew them when it began, so that
only the rows are compared; that ours sees what it brought up is shown in test_commit_races.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.java.java_process import JavaProcess, JavaRefused, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA, texts_of
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.models.changelog_follower import Follower

pytestmark = [pytest.mark.interop, NEEDS_JAVA]

KEYS, COMMITS, ROWS = 50, 40, 10
ATTEMPTS = 50
COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        *(("a", pa.string()), ("a_at", pa.int64()), ("b", pa.string()), ("b_at", pa.int64())),
    ]
)
OPTIONS = {
    "bucket": "2",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "fields.a_at.sequence-group": "a",
    "fields.b_at.sequence-group": "b",
    "num-sorted-run.compaction-trigger": "3",
    "widetable.fsync": "false",
}


def batches(rng: random.Random, column: str) -> list[pa.Table]:
    """What one writer commits: its group of some keys, newer with each commit."""
    found = []
    for number in range(COMMITS):
        keys = rng.sample(range(KEYS), ROWS)
        data = {
            "k": pa.array(keys, pa.int64()),
            column: pa.array([f"{column}{number}-{key}" for key in keys]),
            f"{column}_at": pa.array([number] * ROWS, pa.int64()),
        }
        found.append(pa.table(data))
    return found


def write_theirs(table: JavaTable, batch: pa.Table, *, write_only: bool) -> None:
    options = {"write-only": str(write_only).lower()}
    for _ in range(ATTEMPTS):
        try:
            table.write(batch, stream="beside", options=options)
        except JavaRefused as refusal:
            assert "conflicts detected" in str(refusal), refusal  # noqa: PT017
        else:
            return
    raise AssertionError("every attempt met another compaction")


@pytest.mark.parametrize("compacts", ["we", "they", "both"])
def test_streams_beside_each_other(
    tmp_path: Path, java: JavaProcess, rng: random.Random, compacts: str
) -> None:
    options = {**OPTIONS, "write-only": "true" if compacts == "they" else "false"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", COLUMNS, primary_key=["k"], options=options
    )
    ours, theirs = batches(rng, "a"), batches(rng, "b")
    failed: list[BaseException] = []

    def write_ours() -> None:
        try:
            mine = wt.Table.open(table.path)
            for batch in ours:
                mine.write(batch)
        except wt.WidetableError as error:
            failed.append(error)

    thread = threading.Thread(target=write_ours)
    thread.start()
    their_table = JavaTable(java, Path(table.path))
    for number, batch in enumerate(theirs):
        write_theirs(their_table, batch, write_only=compacts != "both")
        if compacts == "they" and number % 3 == 0:
            their_table.compact(full=False)
    thread.join(PATIENCE_SECONDS)
    their_table.ask("close", stream="beside")
    assert not failed
    if compacts == "they":
        their_table.compact(full=False)
    else:
        table.compact()
    expected = check_rows(table, their_table, [*ours, *theirs])
    if compacts != "both":
        check_changes(table, their_table, expected)


def check_rows(
    table: wt.Table, their_table: JavaTable, written: list[pa.Table]
) -> list[dict[str, object]]:
    """Each group has the newest row of its writer, in both readers; these rows."""
    expected: dict[int, dict[str, object]] = {}
    for batch in written:
        for row in batch.to_pylist():
            expected.setdefault(row["k"], dict.fromkeys(COLUMNS.names)).update(row)
    rows = texts_of(pa.Table.from_pylist(list(expected.values()), COLUMNS))
    assert texts_of(table.scan().to_arrow()) == rows
    assert texts_of(their_table.read()) == rows
    return list(expected.values())


def check_changes(
    table: wt.Table, their_table: JavaTable, expected: list[dict[str, object]]
) -> None:
    """The changelog leads there, and the audit agrees."""
    follower = Follower(table.schema)
    changes = their_table.changes(table.snapshots()[-1].id)
    follower.apply([change for _, change in changes])
    follower.check(expected)
    report = table.audit()
    assert report.ok, report
