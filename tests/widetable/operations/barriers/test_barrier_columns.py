"""The columns of a writer under barriers: its own, by whatever names they have by now."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.barrier_tables import NAME, new_table, rows_of, writers
from widetable.errors import InvalidError


def test_a_column_that_is_not_there_is_no_other_writers(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, _ = writers(tmp_path)
    with pytest.raises(InvalidError, match="another writer"):
        wa.write({"id": [1], "b": [1]}, barrier=10)
    with pytest.raises(InvalidError, match="'colour'") as unknown:
        wa.write({"id": [1], "colour": [1]}, barrier=10)
    assert "another writer" not in str(unknown.value)
    wt.Catalog(tmp_path).alter_table(NAME, rename_columns={"a": "colour"})
    with pytest.raises(InvalidError, match="'a'") as renamed:
        wa.write({"id": [1], "a": [1]}, barrier=10)
    assert "another writer" not in str(renamed.value)
    wa.write({"id": [1], "colour": [1]}, barrier=10)
    assert rows_of(table.scan()) == [(1, 1, None, None)]


def test_a_writer_keeps_its_column_where_names_are_swapped(tmp_path: Path) -> None:
    """After a and b swap names, the column of wa is called b."""
    table = new_table(tmp_path)
    wa, _ = writers(tmp_path)
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        wt.Catalog(tmp_path).alter_table(NAME, rename_columns={old: new})
    with pytest.raises(InvalidError, match="another writer"):
        wa.write({"id": [1], "a": [1]}, barrier=10)
    wa.write({"id": [1], "b": [1]}, barrier=10)
    rows = table.scan().to_arrow().to_pylist()
    assert [(row["a"], row["b"]) for row in rows] == [(None, 1)]


def test_who_names_all_columns_has_none_that_are_added_later(tmp_path: Path) -> None:
    new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)
    named = catalog.writer(NAME, "named", ["a", "b", "c"])
    catalog.alter_table(NAME, add_columns={"d": pa.int64()})
    other = catalog.writer(NAME, "other", ["d"])
    with pytest.raises(InvalidError, match="another writer"):
        named.write({"id": [1], "d": [1]}, barrier=10)
    named.write({"id": [1], "a": [1]}, barrier=10)
    other.write({"id": [1], "d": [2]}, barrier=10)
