"""A row that no budget holds is an error with the number needed; with that number it goes through.

A row of 256 MiB and more would be needed for the real limit, so what a process may take beside its budget is set to
nothing here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.errors import InvalidError
from widetable.format import row_budget

LONG = 1 << 20
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])


@pytest.fixture(autouse=True)
def _nothing_beside_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_budget, "SPARE_BYTES", 0)


def made(folder: Path, buffer: str) -> wt.Catalog:
    options = {
        "write-buffer-size": buffer,
        "merge-engine": "partial-update",
        "changelog-producer": "lookup",
        "write-only": "true",
    }
    catalog = wt.Catalog(str(folder))
    catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    return catalog


def row(letter: str) -> pa.Table:
    return pa.table({"k": [1], "t": [letter * LONG]}, SCHEMA)


def needed(error: InvalidError) -> str:
    found = re.search(r"'write-buffer-size' to (\d+ b) at least", str(error))
    assert found is not None, error
    return found[1]


def test_a_writer_names_what_it_needs(tmp_path: Path) -> None:
    catalog = made(tmp_path, "64 kb")
    with pytest.raises(InvalidError, match="a row that is written") as refused:
        catalog.table("db.t").write(row("a"))
    table = catalog.table("db.t")
    assert table.snapshots() == []
    assert list(Path(table.path).glob("bucket-*/*")) == []
    catalog.alter_table("db.t", set_options={"write-buffer-size": needed(refused.value)})
    catalog.table("db.t").write(row("a"))
    assert catalog.table("db.t").scan().to_arrow()["t"].to_pylist() == ["a" * LONG]


def test_a_compaction_names_what_it_needs(tmp_path: Path) -> None:
    catalog = made(tmp_path, "16 mb")
    for letter in "ab":
        catalog.table("db.t").write(row(letter))
    catalog.alter_table("db.t", set_options={"write-buffer-size": "64 kb"})
    with pytest.raises(InvalidError, match="a merge of 2 sorted runs") as refused:
        catalog.table("db.t").compact(full=True)
    catalog.alter_table("db.t", set_options={"write-buffer-size": needed(refused.value)})
    table = catalog.table("db.t")
    table.compact(full=True)
    assert table.scan().to_arrow()["t"].to_pylist() == ["b" * LONG]
    assert table.audit().ok
