"""A table under two masters at once: a streaming writer of Paimon's Java and one of ours, both with a lookup changelog.

Whoever compacts must be one of them (Paimon: "dedicated compaction"): here each in turn is. What happens where both
compact stands in docs/differences-from-paimon.md.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.changelog_follower import Follower
from tests.interop.java_process import JavaProcess, JavaTable
from tests.interop.java_session import NEEDS_JAVA, texts_of
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.interop, NEEDS_JAVA]

KEYS, COMMITS, ROWS = 50, 40, 10
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


@pytest.mark.parametrize("compacts", ["we", "they"])
def test_streams_beside_each_other(
    tmp_path: Path, java: JavaProcess, rng: random.Random, compacts: str
) -> None:
    options = {**OPTIONS, "write-only": "false" if compacts == "we" else "true"}
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
        their_table.write(batch, stream="beside", options={"write-only": "true"})
        if compacts == "they" and number % 3 == 0:
            their_table.compact(full=False)
    thread.join(PATIENCE_SECONDS)
    their_table.ask("close", stream="beside")
    assert not failed
    if compacts == "we":
        table.compact()
    else:
        their_table.compact(full=False)
    check(table, their_table, [*ours, *theirs])


def check(table: wt.Table, their_table: JavaTable, written: list[pa.Table]) -> None:
    """Each group has the newest row of its writer, in both readers; the changelog leads there; the audit agrees."""
    expected: dict[int, dict[str, object]] = {}
    for batch in written:
        for row in batch.to_pylist():
            expected.setdefault(row["k"], dict.fromkeys(COLUMNS.names)).update(row)
    rows = texts_of(pa.Table.from_pylist(list(expected.values()), COLUMNS))
    assert texts_of(table.scan().to_arrow()) == rows
    assert texts_of(their_table.read()) == rows
    follower = Follower(table.schema)
    changes = their_table.changes(table.snapshots()[-1].id)
    follower.apply([change for _, change in changes])
    follower.check(expected.values())
    report = table.audit()
    assert report.ok, report
