"""Samples where another hand was at a table: altered columns, dropped tables, rollbacks, foreign watermarks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.widetable.derive.samples.sample_model import COLUMNS, OPTIONS, Commit, made, moment
from tests.widetable.derive.samples.test_samples import CASE_10, given, table_of, told
from widetable.derive.samples.sample_rule import SampleArguments
from widetable.derive.samples.sample_tables import samples_of
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.local import LocalFileIO


@pytest.mark.parametrize("first", [0, -(2**63) + 1])
def test_the_watermark_of_the_end_of_a_stream_ends_all_waits(tmp_path: Path, first: int) -> None:
    """Flink commits 2^63 - 1 at the end of a bounded stream."""
    table = made(tmp_path)
    table.write([{"id": 1, "exposed_at": moment(0)}], "e", 1, watermark=first)
    assert given(table, **CASE_10) == []
    table.write([{"id": 2, "exposed_at": moment(0)}], "e", 2, watermark=2**63 - 1)
    assert told(given(table, **CASE_10), "id") == [("+I", 1), ("+I", 2)]


def test_the_smallest_number_is_no_watermark(tmp_path: Path) -> None:
    """Paimon means none by -2^63."""
    with pytest.raises(wt.InvalidError, match=r"watermark: found -9223372036854775808"):
        made(tmp_path).write([{"id": 1}], "e", 1, watermark=-(2**63))


@pytest.mark.parametrize(
    "change", [{"rename_columns": {"price": "cost"}}, {"drop_columns": ["price"]}]
)
def test_a_column_that_went_ends_the_samples_that_have_it(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    table = made(tmp_path)
    given(table, **CASE_10)
    wt.Catalog(str(tmp_path)).alter_table("db.t", **change)
    with pytest.raises(wt.InvalidError, match=r"column 'price'.* Name another table in into"):
        given(table, **CASE_10)
    assert given(table, into="db.again", **CASE_10) == []


def test_an_open_follower_ends_where_a_column_was_dropped_and_added_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    follower = table.follow_samples("c", timeout=0, **CASE_10)
    catalog = wt.Catalog(str(tmp_path))
    catalog.alter_table("db.t", drop_columns=["price"])
    catalog.alter_table("db.t", add_columns={"price": "DOUBLE"})
    Commit("e", 1, [{"id": 1, "exposed_at": 0, "price": 2.0}], reached=30).make(table)
    with pytest.raises(wt.InvalidError, match="dropped and added again"):
        next(follower)


def test_an_open_follower_ends_with_its_table(tmp_path: Path) -> None:
    follower = made(tmp_path).follow_samples("c", timeout=0, **CASE_10)
    wt.Catalog(str(tmp_path)).drop_table("db.t")
    with pytest.raises(wt.NotFoundError):
        next(follower)


def test_a_table_with_the_name_of_the_queue_is_not_to_be_dropped(tmp_path: Path) -> None:
    table = made(tmp_path)
    wt.Catalog(str(tmp_path)).create_table(
        "db.t_samples_waiting", COLUMNS, primary_key=["id"], options=OPTIONS
    )
    with pytest.raises(wt.InvalidError, match=r"no queue of samples.* Name another table in into"):
        given(table, **CASE_10)


@pytest.mark.parametrize("name", ["t_samples", "t_samples_waiting"])
def test_a_rollback_would_lose_samples(tmp_path: Path, name: str) -> None:
    table = made(tmp_path)
    rows = [{"id": 1, "exposed_at": 0, "clicked_at": 0}, {"id": 2, "exposed_at": 0}]
    for number, row in enumerate(rows):
        Commit("e", number, [row], reached=0).make(table)
        given(table, **CASE_10)
    with pytest.raises(wt.InvalidError, match=r"samples of db\.t"):
        table_of(table, name).rollback(snapshot_id=1)
    Commit("e", 9, reached=30).make(table)
    assert told(given(table, **CASE_10), "id") == [("+I", 2)]


class LateFor(LocalFileIO):
    """Another process publishes the table of the samples just before this one would."""

    def __init__(self, folder: Path, hidden: Path) -> None:
        super().__init__(fsync=False)
        self._folder, self._hidden = folder, hidden

    def publish(self, path: str, data: bytes) -> bool:
        if self._hidden.exists() and path.startswith(str(self._folder)):
            shutil.rmtree(self._folder, ignore_errors=True)
            self._hidden.rename(self._folder)
        return super().publish(path, data)


def test_of_two_that_make_samples_at_once_the_earlier_beginning_is_kept(tmp_path: Path) -> None:
    table = made(tmp_path)
    Commit("e", 1, [{"id": 1, "exposed_at": 0}], reached=30).make(table)
    rule = SampleArguments(**CASE_10)
    samples_of(table, rule, None)
    folder, hidden = Path(table_of(table).path), tmp_path / "hidden"
    folder.rename(hidden)
    Commit("e", 2, [{"id": 2, "exposed_at": 0}], reached=31).make(table)
    late = OpenTable(table.path, LateFor(folder, hidden))
    samples_of(late, rule, None)
    assert table.consumers()["samples-db.t_samples"] == 1
    assert told(given(table, **CASE_10), "id", "_snapshot") == [("+I", 1, 1), ("+I", 2, 2)]
