"""A writer as a context manager: a table waits for it until the block has ended well."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from tests.support.tables.barrier_tables import NAME, new_table, rows_of


def members(table: wt.Table) -> set[str]:
    return set(table.inspect.barriers()["writer"].drop_null().to_pylist())


def test_a_writer_leaves_at_the_end_of_its_block(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with wt.Catalog(tmp_path).writer(NAME, "wa", ["a"]) as writer:
        writer.write({"id": [1], "a": [1]}, barrier=10, complete=True)
        assert members(table) == {"wa"}
    assert members(table) == set()
    assert rows_of(table.scan(barrier=10)) == [(1, 1, None, None)]


def test_a_table_waits_for_a_writer_whose_block_ended_with_an_error(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)

    def run() -> None:
        with catalog.writer(NAME, "wa", ["a"]) as writer:
            writer.write({"id": [1], "a": [1]}, identifier=1, barrier=10, complete=True)
            writer.write({"id": [2], "a": [2]}, identifier=2, barrier=20)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert members(table) == {"wa"}
    with pytest.raises(wt.NotFoundError, match="missing: wa"):
        table.scan(barrier=20)
    again = catalog.writer(NAME, "wa", ["a"])
    assert again.last_identifier == 2
    again.complete(20)
    assert rows_of(table.scan(barrier=20)) == [(1, 1, None, None), (2, 2, None, None)]


def test_a_writer_that_left_in_its_block_has_left(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with wt.Catalog(tmp_path).writer(NAME, "wa", ["a"]) as writer:
        writer.write({"id": [1], "a": [1]}, barrier=10, complete=True)
        writer.leave()
        last = table.snapshots()[-1].id
    assert table.snapshots()[-1].id == last


def test_another_process_that_has_the_name_keeps_it(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)
    with pytest.raises(wt.ConflictError), catalog.writer(NAME, "wa", ["a"]):
        catalog.writer(NAME, "wa", ["a"])
    assert members(table) == {"wa"}
