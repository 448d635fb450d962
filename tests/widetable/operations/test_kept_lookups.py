"""Lookups that keep what they have open: the rows of whatever snapshot is asked for, and no hold on any."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.counting_file_io import CountingFileIO
from tests.forked import in_a_child
from widetable.commit.read_lease import held_snapshots
from widetable.operations.kept_lookups import KeptLookups
from widetable.paths import TablePaths
from widetable.storage.local import LocalFileIO

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


def test_rows_are_those_of_the_snapshot_whichever_came_before(
    table: wt.Table, rng: random.Random
) -> None:
    kept = KeptLookups(table)
    ids = [snapshot.id for snapshot in table.snapshots()]
    for _ in range(40):
        id, columns = rng.choice(ids), rng.choice([["a"], ["b", "k"], ["a", "b"]])
        assert kept.rows(KEYS, columns, id) == table.lookup(KEYS, columns, id)
    kept.close()
    kept.close()
    assert kept.rows(KEYS, ["a"], ids[0]) == table.lookup(KEYS, ["a"], ids[0])
    assert held_snapshots(LocalFileIO(), TablePaths(table.path)) == []


def test_what_is_open_stays_open(table: wt.Table) -> None:
    table.compact(full=True)
    counting = CountingFileIO()
    kept = KeptLookups(wt.Table.open(table.path, file_io=counting))
    newest = table.snapshots()[-1].id
    first = kept.rows(KEYS, ["a"], newest)
    files = [path for path in counting.opened if "data-" in path]
    counting.read_files.clear()
    assert kept.rows(KEYS, ["a"], newest) == first
    assert [path for path in counting.opened if "data-" in path] == files
    assert counting.read_files == []


def test_a_snapshot_that_has_expired_leaves_it_sound(table: wt.Table) -> None:
    kept = KeptLookups(table)
    newest = table.snapshots()[-1].id
    expected = kept.rows(KEYS, ["a"], newest)
    with pytest.raises(wt.NotFoundError, match="snapshot 99"):
        kept.rows(KEYS, ["a"], 99)
    with pytest.raises(wt.NotFoundError, match="'c'"):
        kept.rows(KEYS, ["c"], newest)
    assert kept.rows(KEYS, ["a"], newest) == expected


def test_a_forked_child_opens_its_own(table: wt.Table) -> None:
    kept = KeptLookups(table)
    newest = table.snapshots()[-1].id
    expected = kept.rows(KEYS, ["a"], newest)

    def look() -> None:
        assert kept.rows(KEYS, ["a"], newest) == expected
        kept.close()

    _, status = os.waitpid(in_a_child(look), 0)
    assert status == 0
    assert kept.rows(KEYS, ["a"], newest) == expected
