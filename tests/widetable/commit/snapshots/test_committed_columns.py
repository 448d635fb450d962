"""The property of a snapshot that says which columns were written."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.snapshots.committed import COLUMNS
from widetable.commit.snapshots.committed_columns import columns_of, columns_text, union
from widetable.errors import DamagedError
from widetable.format.snapshot import Snapshot


def snapshot_with(table: wt.Table, text: str | None) -> Snapshot:
    latest = table._committer.snapshots.latest()
    assert latest is not None
    rest = {name: value for name, value in latest.properties.items() if name != COLUMNS}
    return replace(latest, properties=rest if text is None else {**rest, COLUMNS: text})


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    schema = pa.schema([("k", pa.int64()), *((f"c{n}", pa.int64()) for n in range(9))])
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=["k"], options={"merge-engine": "partial-update"}
    )
    made.write(pa.table({"k": [1], "c2": [1], "c6": [1], "c7": [1], "c8": [1]}))
    return made


@pytest.mark.parametrize(
    ("ids", "text"),
    [((), ""), ((7,), "7"), ((3, 7, 8, 9), "3,7-9"), ((0, 1, 3, 4), "0-1,3-4")],
)
def test_neighbouring_ids_are_one_range(ids: tuple[int, ...], text: str) -> None:
    assert columns_text(frozenset(ids)) == text


def test_what_is_written_is_read_back(table: wt.Table, rng: random.Random) -> None:
    for _ in range(200):
        ids = frozenset(rng.sample(range(40), rng.randint(0, 40)))
        assert columns_of(snapshot_with(table, columns_text(ids))) == ids


def test_a_commit_says_which_columns_it_wrote(table: wt.Table) -> None:
    latest = table._committer.snapshots.latest()
    assert latest is not None
    assert latest.properties[COLUMNS] == "3,7-9"  # field ids: k is 0, c0 is 1


def test_a_commit_of_all_columns_says_nothing(table: wt.Table) -> None:
    table.write(pa.table({name: [1] for name in table.schema.names}))
    latest = table._committer.snapshots.latest()
    assert latest is not None
    assert COLUMNS not in latest.properties
    assert columns_of(latest) is None


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1--2", "0-99999999999"])
def test_another_form_is_damage(table: wt.Table, text: str) -> None:
    with pytest.raises(DamagedError, match=r"widetable\.columns"):
        columns_of(snapshot_with(table, text))


def test_a_union_with_what_nobody_knows_is_not_known() -> None:
    assert union([frozenset({1}), frozenset({2, 3})]) == frozenset({1, 2, 3})
    assert union([]) == frozenset()
    assert union([frozenset({1}), None]) is None
