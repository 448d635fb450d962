"""Lookups that keep what they have open: the rows of whatever snapshot is asked for, and no hold on any."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.faults.forked import in_a_child
from widetable.commit.holds.read_lease import held_snapshots
from widetable.operations.queries.kept_lookups import KeptLookups, PinnedSnapshot
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

KEYS = pa.table({"k": range(40)})


@pytest.fixture
def table(tmp_path: Path, rng: random.Random) -> wt.Table:
    """Of some snapshots, compacted now and then."""
    made = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"k": pa.int64(), "a": pa.int64(), "b": pa.string()},
        primary_key=["k"],
        options={"bucket": "2", "widetable.lookup-strategy": "lookup"},
    )
    for number in range(8):
        keys = rng.sample(range(40), 15)
        made.write(pa.table({"k": keys, "a": [number] * 15, "b": [f"b{number}"] * 15}))
        if number % 3 == 2:
            made.compact(full=True)
    return made


def newest_of(table: wt.Table) -> PinnedSnapshot:
    newest = table.snapshots()[-1]
    return PinnedSnapshot(newest.id, newest.time_millis)


def test_rows_are_those_of_the_snapshot_whichever_came_before(
    table: wt.Table, rng: random.Random
) -> None:
    kept = KeptLookups(table)
    snapshots = [PinnedSnapshot(each.id, each.time_millis) for each in table.snapshots()]
    for _ in range(40):
        snapshot, columns = rng.choice(snapshots), rng.choice([["a"], ["b", "k"], ["a", "b"]])
        assert kept.rows(KEYS, columns, snapshot) == table.lookup(KEYS, columns, snapshot.id)
    kept.close()
    kept.close()
    assert kept.rows(KEYS, ["a"], snapshots[0]) == table.lookup(KEYS, ["a"], snapshots[0].id)
    assert held_snapshots(LocalFileIO(), TablePaths(table.path)) == []


def test_what_is_open_stays_open(table: wt.Table) -> None:
    table.compact(full=True)
    counting = CountingFileIO()
    kept = KeptLookups(wt.Table.open(table.path, file_io=counting))
    newest = newest_of(table)
    first = kept.rows(KEYS, ["a"], newest)
    files = [path for path in counting.opened if "data-" in path]
    counting.read_files.clear()
    assert kept.rows(KEYS, ["a"], newest) == first
    assert [path for path in counting.opened if "data-" in path] == files
    assert counting.read_files == []


def test_a_snapshot_that_has_expired_leaves_it_sound(table: wt.Table) -> None:
    kept = KeptLookups(table)
    newest = newest_of(table)
    expected = kept.rows(KEYS, ["a"], newest)
    with pytest.raises(wt.NotFoundError, match="snapshot 99"):
        kept.rows(KEYS, ["a"], PinnedSnapshot(99, 0))
    with pytest.raises(wt.NotFoundError, match="'c'"):
        kept.rows(KEYS, ["c"], newest)
    assert kept.rows(KEYS, ["a"], newest) == expected


def test_another_snapshot_of_the_same_id_is_another_one(tmp_path: Path) -> None:
    """As rollbacks of other clients leave them: what came after is removed, and its ids come again."""
    table = wt.Catalog(tmp_path).create_table(
        "db.t", {"k": pa.int64(), "a": pa.string()}, primary_key=["k"]
    )
    table.write({"k": [1], "a": ["first"]})
    table.write({"k": [1], "a": ["rolled back"]})
    kept, gone = KeptLookups(table), newest_of(table)
    assert kept.rows(KEYS, ["a"], gone)["a"][1].as_py() == "rolled back"
    folder = Path(table.path) / "snapshot"
    (folder / f"snapshot-{gone.id}").unlink()
    (folder / "LATEST").write_text(str(gone.id - 1))
    again = wt.Table.open(table.path)
    again.write({"k": [1], "a": ["again"]})
    assert newest_of(again).id == gone.id
    assert kept.rows(KEYS, ["a"], newest_of(again))["a"][1].as_py() == "again"


def test_a_forked_child_opens_its_own(table: wt.Table) -> None:
    kept = KeptLookups(table)
    newest = newest_of(table)
    expected = kept.rows(KEYS, ["a"], newest)

    def look() -> None:
        assert kept.rows(KEYS, ["a"], newest) == expected
        kept.close()

    _, status = os.waitpid(in_a_child(look), 0)
    assert status == 0
    assert kept.rows(KEYS, ["a"], newest) == expected
